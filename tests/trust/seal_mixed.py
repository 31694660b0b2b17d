# SPDX-License-Identifier: BSD-3-Clause
"""Ends that differ about a network's security, or have different keys, and strangers that want less security: refused,
with an explanation at both ends."""
from peer import *

BASE = {"MAD_DRIVERS": "tcp,self", "MAD_CONNECT_TIMEOUT": "2000"}


def env(security, **more):
    return dict(BASE, MAD_TCP_SECURITY=security, **more)


def refused(name, caller, called, cause_at_caller, cause_at_called):
    a, b = Target("A", caller), Target("B", called)
    said = a.send(b, "secret")
    b.drain()
    a.drain()
    check("%s: no message goes" % name, said and "success" not in said and not b.holding("got from"), said, b.lines)
    check("%s: the caller says why" % name, a.holding(cause_at_caller), a.lines)
    check("%s: the called one says why" % name, b.holding(cause_at_called), b.lines)
    check("%s: both go on" % name, a.answers() and b.answers())
    a.end()
    b.end()


def agreed(name, caller, called):
    a, b = Target("A", caller), Target("B", called)
    said = a.send(b, "hello there")
    b.drain()
    check("%s: messages go" % name, said and "success" in said and b.holding("hello there"), said, a.lines, b.lines)
    a.end()
    b.end()


def stranger(name, first, cause):
    """Send these bytes to a sealed process as a stranger."""
    b = Target("B", env("seal"))
    with socket.create_connection(tcp_of(b.address), 5) as s:
        s.settimeout(5)
        s.sendall(first(b))
        answer = b""
        try:
            while True:
                got = s.recv(4096)
                if not got:
                    break
                answer += got
        except OSError:
            pass
    b.drain()
    check("%s: it is refused" % name, b.holding(cause), b.lines)
    check("%s: it goes on" % name, b.answers())
    b.end()
    return answer


refused("seal calls auth", env("seal"), env("auth"), "answers in the clear", "begins TLS, and this network is not sealed")
refused("auth calls seal", env("auth"), env("seal"), "security for this network", "speaks in the clear")
refused("none calls auth", env("none"), env("auth"), "security for this network", "security for this network")
refused("auth calls none", env("auth"), env("none"), "security for this network", "security for this network")
refused("another key", env("seal", TARGET_KEY="another key of another job, 32 bytes"[:32]), env("seal"), "give both the same key", "does not hold the job's key")
refused("another cipher", env("seal", MAD_SEAL_CIPHER="TLS_AES_256_GCM_SHA384"), env("seal"), "MAD_SEAL_CIPHER",
        "MAD_SEAL_CIPHER")
agreed("seal and seal", env("seal"), env("seal"))
agreed("seal by AES 256", env("seal", MAD_SEAL_CIPHER="TLS_AES_256_GCM_SHA384"),
       env("seal", MAD_SEAL_CIPHER="TLS_AES_256_GCM_SHA384"))
agreed("none and none, with other keys", env("none", TARGET_KEY="another key of another job, 32 bytes"[:32]), env("none"))
SITE = b'networks = { wan = { driver = "tcp"; hosts = "a,b"; interface = "lo"; leaves_site = true; }; };'
BY_FILE = dict(BASE, MAD_DRIVERS="tcp,self,virtual", MAD_TOPOLOGY="hex:" + SITE.hex(), MAD_HOST="a")
agreed("a network that leaves the site, and seal", BY_FILE, env("seal"))
refused("a network that leaves the site calls auth", BY_FILE, env("auth"), "answers in the clear", "is not sealed here")
agreed("the knob comes before the file", dict(BY_FILE, MAD_TCP_SECURITY="auth"), env("auth"))
agreed("the word for one interface", env("auth,lo=seal"), env("seal,eth0=auth"))



def openssl(folder, *words):
    subprocess.run(["openssl"] + list(words), cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificates():
    """Make certificates of hosts, by one authority and by another."""
    folder = os.environ["TRUST_SCRATCH"]
    for name in ("site", "other"):
        openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                "/CN=authority " + name, "-keyout", name + ".key", "-out", name + ".pem")
        openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=host of " + name,
                "-keyout", "host-" + name + ".key", "-out", "host.csr")
        openssl(folder, "x509", "-req", "-in", "host.csr", "-CA", name + ".pem", "-CAkey", name + ".key", "-CAcreateserial",
                "-days", "2", "-out", "host-" + name + ".pem")

    def of(host, authority, **more):
        return env("seal", MAD_SEAL_CERTIFICATE="%s/host-%s.pem" % (folder, host), MAD_SEAL_AUTHORITY="%s/%s.pem" % (folder, authority),
                   MAD_SEAL_PRIVATE_KEY="%s/host-%s.key" % (folder, host), **more)
    return of


if subprocess.call("command -v openssl", shell=True, stdout=subprocess.DEVNULL) == 0:
    of = certificates()
    agreed("certificates of one authority", of("site", "site"), of("site", "site"))
    refused("a caller's certificate of another authority", of("other", "site"), of("site", "site"), "ended the sealed",
            "certificate is not accepted")
    refused("a called one's certificate of another authority", of("site", "site"), of("other", "site"), "certificate is not accepted",
            "ended the sealed")
    refused("certificates here, the job's key there", of("site", "site"), env("seal"), "sealed handshake", "in common")
    refused("the job's key here, certificates there", env("seal"), of("site", "site"), "give certificates to both or none", "")
    refused("certificates, and another key", of("site", "site", TARGET_KEY="another key of another job, 32 bytes"[:32]), of("site", "site"), "give both the same key",
            "does not hold the job's key")
    broken = of("site", "site")
    broken["MAD_SEAL_PRIVATE_KEY"] = "/nonexistent"
    a = Target("A", broken)
    check("a key that is not there is reported, and the network not used", a.holding("not used") and a.holding("/nonexistent"), a.lines)
    a.end()

own = make_address(os.urandom(16), [SELF])
answer = stranger("HELLO in the clear that claims to be sealed",
                  lambda b: hello_frame(uid(b.address), uid(own), security=SEAL), "speaks in the clear")
check("HELLO in the clear is answered by REFUSE", answer[:4] == b"MADH" and answer[6] == REFUSE, answer)
stranger("garbage", lambda b: os.urandom(1)[:0] + b"GET / HTTP/1.0\r\n\r\n", "not TLS")
stranger("garbage that begins as TLS does", lambda b: b"\x16\x03\x01\x00\x40" + os.urandom(64), "TLS")
stranger("a record of a length that there is not", lambda b: b"\x16\x03\x01\xff\xff" + os.urandom(64), "not TLS")
finish()
