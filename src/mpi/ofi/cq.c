/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: rings that grow, so that no entry is lost.  Errors are in order among the other entries. */
#include "engine/wait_policy.h"
#include "ofi.h"

#include <sched.h>

#define SIZE 256 /* number of entries of a new ring */

static void cq_lock(mad_ofi_cq_t *cq)
{
    if (cq->locked)
        pthread_mutex_lock(&cq->lock);
}

static void cq_unlock(mad_ofi_cq_t *cq)
{
    if (cq->locked)
        pthread_mutex_unlock(&cq->lock);
}

/* ---- Adding entries ----------------------------------------------------------------------------------------------- */

static bool cq_grow(mad_ofi_cq_t *cq)
{
    mad_ofi_entry_t *ring = malloc((size_t)cq->size * 2 * sizeof *ring);
    if (!ring)
        return false;
    for (uint32_t i = 0; i < cq->size; i++)
        ring[i] = cq->ring[(cq->head + i) & (cq->size - 1)];
    free(cq->ring);
    cq->ring = ring;
    cq->head = 0;
    cq->tail = cq->size;
    cq->size *= 2;
    return true;
}

/* Return a new entry at the end; NULL if out of memory.  The caller holds the queue's lock. */
static mad_ofi_entry_t *cq_entry_add(mad_ofi_cq_t *cq)
{
    if (cq->tail - cq->head == cq->size && !cq_grow(cq))
        return NULL;
    return &cq->ring[cq->tail++ & (cq->size - 1)];
}

static void cq_overrun(void)
{
    MAD_OFI_WARN(CQ, "no memory for a completion: it is lost\n");
}

void mad_ofi_cq_push_other(mad_ofi_cq_t *cq, const struct fi_cq_tagged_entry *e, fi_addr_t source)
{
    mad_ofi_entry_t *entry;
    cq_lock(cq);
    entry = cq_entry_add(cq);
    if (entry) {
        entry->e = *e;
        entry->source = source;
        entry->error = NULL;
    }
    cq_unlock(cq);
    if (!entry)
        cq_overrun();
    mad_ofi_wait_wake(&cq->wait);
}

void mad_ofi_cq_push_error(mad_ofi_cq_t *cq, const struct fi_cq_tagged_entry *e, size_t olen, int err, int prov_errno)
{
    struct fi_cq_err_entry *error = malloc(sizeof *error);
    mad_ofi_entry_t *entry = NULL;
    if (!cq->locked)
        cq->into_end = cq->into; /* later entries must follow this one in the ring, not in the program's buffer */
    if (error) {
        *error = (struct fi_cq_err_entry){.op_context = e->op_context,
                                          .flags = e->flags,
                                          .len = e->len,
                                          .buf = e->buf,
                                          .data = e->data,
                                          .tag = e->tag,
                                          .olen = olen,
                                          .err = err,
                                          .prov_errno = prov_errno};
        cq_lock(cq);
        entry = cq_entry_add(cq);
        if (entry)
            entry->error = error;
        cq_unlock(cq);
    }
    if (!entry) {
        free(error);
        cq_overrun();
    }
    mad_ofi_wait_wake(&cq->wait);
}

/* ---- Reading ------------------------------------------------------------------------------------------------------ */

static size_t entry_size(enum fi_cq_format format)
{
    switch (format) {
    case FI_CQ_FORMAT_MSG: return sizeof(struct fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA: return sizeof(struct fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED: return sizeof(struct fi_cq_tagged_entry);
    default: return sizeof(struct fi_cq_entry);
    }
}

/* Each format begins with the fields of the shorter ones. */
_Static_assert(offsetof(struct fi_cq_tagged_entry, len) == offsetof(struct fi_cq_msg_entry, len) &&
                   offsetof(struct fi_cq_tagged_entry, data) == offsetof(struct fi_cq_data_entry, data),
               "formats are prefixes");

static void cq_entry_read(const mad_ofi_cq_t *cq, const mad_ofi_entry_t *entry, void *buf, size_t at)
{
    size_t size = entry_size(cq->format);
    memcpy((char *)buf + at * size, &entry->e, size);
}

/* Read up to n entries before the first error, in the longest format, without sources. */
static inline size_t take_tagged(mad_ofi_cq_t *cq, struct fi_cq_tagged_entry *buf, size_t n)
{
    const mad_ofi_entry_t *ring = cq->ring;
    uint32_t head = cq->head, last = cq->size - 1, most = cq->tail - head < n ? cq->tail - head : (uint32_t)n, i;
    for (i = 0; i < most && !ring[(head + i) & last].error; i++)
        buf[i] = ring[(head + i) & last].e;
    cq->head = head + i;
    return i;
}

/* Prepare for the next read; has_room: this one could have returned more.  Return true if entries are left.  Under the
 * lock. */
static inline bool cq_settle(mad_ofi_cq_t *cq, bool has_room)
{
    bool is_left = cq->head != cq->tail;
    cq->drained = has_room && !is_left && !cq->locked;
    if (!is_left)
        cq->head = cq->tail = 0; /* reuse the first entries of the ring, because they are in the cache */
    return is_left;
}

/* Read up to n entries.  Return their number; -FI_EAVAIL if the first entry is an error, -FI_EAGAIN if there is none.
 * If n is 0, return 0 if there is any entry, an error or not. */
static ssize_t cq_take(mad_ofi_cq_t *cq, void *buf, size_t n, fi_addr_t *sources)
{
    bool is_left;
    ssize_t got = 0;
    cq_lock(cq);
    if (cq->format == FI_CQ_FORMAT_TAGGED && !sources)
        got = (ssize_t)take_tagged(cq, buf, n);
    while ((size_t)got < n && cq->head != cq->tail) {
        const mad_ofi_entry_t *entry = &cq->ring[cq->head & (cq->size - 1)];
        if (entry->error)
            break;
        cq_entry_read(cq, entry, buf, (size_t)got);
        if (sources)
            sources[got] = entry->source;
        cq->head++;
        got++;
    }
    is_left = cq_settle(cq, (size_t)got < n);
    cq_unlock(cq);
    if (got || (is_left && !n))
        return got;
    return is_left ? -FI_EAVAIL : -FI_EAGAIN;
}

/* True if the ring is empty.  The caller holds the lock, unless a single thread uses the queue. */
static inline bool is_empty(const mad_ofi_cq_t *cq)
{
    return !cq->locked && cq->head == cq->tail;
}

static bool has_nothing(mad_ofi_cq_t *cq)
{
    bool nothing;
    cq_lock(cq);
    nothing = cq->head == cq->tail;
    cq_unlock(cq);
    return nothing;
}

/* Make progress until a completion has arrived, or no message arrives.  A message may arrive without a completion, because
 * no receive is posted yet, and further messages may follow it.  Further messages are polled for, too, because a program
 * that reads nothing may yield its processor.  cq->into equals `into` while nothing has completed. */
static inline void cq_look(mad_ofi_cq_t *cq, const struct fi_cq_tagged_entry *into)
{
    int looks = 0;
    while (mad_ofi_eps_progress(&cq->eps) > 0 && cq->into == into && has_nothing(cq) && ++looks < MADI_OFI_LOOKS)
        ;
}

/* Like cq_take, but first make progress if the queue is empty or n is 0. */
static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t n, fi_addr_t *sources)
{
    mad_ofi_cq_t *cq = FROM_FID(mad_ofi_cq_t, fid);
    ssize_t got = n && !is_empty(cq) ? cq_take(cq, buf, n, sources) : -FI_EAGAIN;
    if (got != -FI_EAGAIN)
        return got;
    cq_look(cq, NULL);
    return is_empty(cq) ? -FI_EAGAIN : cq_take(cq, buf, n, sources);
}

/* Make progress while the ring is empty, and let completions be written directly into the program's buffer. */
static __attribute__((noinline)) ssize_t cq_read_new(mad_ofi_cq_t *cq, struct fi_cq_tagged_entry *buf, size_t n)
{
    const struct fi_cq_tagged_entry *end;
    cq->into = buf;
    cq->into_end = buf + n;
    cq_look(cq, buf);
    end = cq->into;
    cq->into = cq->into_end = NULL;
    if (__builtin_expect(end == buf, 1))
        return is_empty(cq) ? -FI_EAGAIN : cq_take(cq, buf, n, NULL);
    cq->drained = end < buf + n && is_empty(cq);
    return end - buf;
}

/* Fast path: the only reader, and the longest format.  If the last read has emptied the queue, this one does not poll:
 * polling would delay a program that reads until nothing is left, as Open MPI does, and then handles what it has read. */
static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t n)
{
    mad_ofi_cq_t *cq = FROM_FID(mad_ofi_cq_t, fid);
    size_t got;
    if (!cq->direct || !n)
        return cq_readfrom(fid, buf, n, NULL);
    if (cq->head != cq->tail) {
        got = take_tagged(cq, buf, n);
        cq_settle(cq, got < n);
        return got ? (ssize_t)got : -FI_EAVAIL;
    }
    if (cq->drained) {
        cq->drained = false;
        return -FI_EAGAIN;
    }
    return cq_read_new(cq, buf, n);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
    mad_ofi_cq_t *cq = FROM_FID(mad_ofi_cq_t, fid);
    struct fi_cq_err_entry *error = NULL;
    void *data = out->err_data;
    size_t data_len = out->err_data_size;
    (void)flags;
    cq_lock(cq);
    if (cq->head != cq->tail) {
        error = cq->ring[cq->head & (cq->size - 1)].error;
        if (error)
            cq->head++;
    }
    cq_unlock(cq);
    if (!error)
        return -FI_EAGAIN;
    *out = *error;
    free(error);
    out->err_data = data_len ? data : NULL; /* NULL if the error has no data */
    out->err_data_size = 0;
    return 1;
}

static int cq_has_news(void *arg)
{
    mad_ofi_cq_t *cq = arg;
    return atomic_load_explicit(&cq->signalled, memory_order_relaxed) || !has_nothing(cq);
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t n, fi_addr_t *sources, const void *cond, int timeout)
{
    mad_ofi_cq_t *cq = FROM_FID(mad_ofi_cq_t, fid);
    int64_t begin = mad_dev_clock();
    ssize_t got;
    (void)cond; /* the condition passed by the program is only a hint: it is not used */
    if (cq->wait.fd < 0)
        return -FI_EINVAL;
    do { /* repeat, because another thread may take the entry whose arrival has woken this thread */
        got = cq_take(cq, buf, n, sources);
    } while (got == -FI_EAGAIN && !atomic_exchange(&cq->signalled, false) &&
             mad_ofi_wait_for(&cq->wait, &cq->eps, cq_has_news, cq, begin, timeout));
    return got;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t n, const void *cond, int timeout)
{
    return cq_sreadfrom(fid, buf, n, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
    mad_ofi_cq_t *cq = FROM_FID(mad_ofi_cq_t, fid);
    if (cq->wait.fd < 0)
        return -FI_EINVAL;
    atomic_store(&cq->signalled, true);
    mad_ofi_wait_wake(&cq->wait);
    return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
    const char *text = mad_status_text((mad_status_t)prov_errno);
    (void)fid, (void)err_data;
    if (buf && len) {
        strncpy(buf, text, len - 1);
        buf[len - 1] = 0;
    }
    return text;
}

bool mad_ofi_cq_has_entry(mad_ofi_cq_t *cq)
{
    return !has_nothing(cq);
}

/* ---- Opening and closing ------------------------------------------------------------------------------------------ */

static int cq_close(struct fid *fid)
{
    mad_ofi_cq_t *cq = FROM_FID(mad_ofi_cq_t, fid);
    if (atomic_load(&cq->users))
        return -FI_EBUSY;
    for (; cq->head != cq->tail; cq->head++)
        free(cq->ring[cq->head & (cq->size - 1)].error);
    mad_ofi_wait_close(&cq->wait);
    pthread_mutex_destroy(&cq->lock);
    atomic_fetch_sub(&cq->domain->users, 1);
    free(cq->eps.at);
    free(cq->ring);
    free(cq);
    return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
    return mad_ofi_wait_control(&FROM_FID(mad_ofi_cq_t, fid)->wait, command, arg);
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops), .close = cq_close, .bind = mad_ofi_no_bind, .control = cq_control, MAD_OFI_NO_REST};
static struct fi_ops_cq cq_ops = {.size = sizeof(struct fi_ops_cq),
                                  .read = cq_read,
                                  .readfrom = cq_readfrom,
                                  .readerr = cq_readerr,
                                  .sread = cq_sread,
                                  .sreadfrom = cq_sreadfrom,
                                  .signal = cq_signal,
                                  .strerror = cq_strerror};

int mad_ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
    mad_ofi_domain_t *d = FROM_FID(mad_ofi_domain_t, domain);
    mad_ofi_cq_t *cq;
    int rc;
    if ((unsigned)attr->format > FI_CQ_FORMAT_TAGGED)
        return -FI_EINVAL;
    cq = calloc(1, sizeof *cq);
    if (!cq)
        return -FI_ENOMEM;
    rc = attr->flags & ~(uint64_t)FI_AFFINITY ? -FI_ENOSYS : mad_ofi_wait_open(&cq->wait, attr->wait_obj);
    cq->ring = rc ? NULL : malloc(SIZE * sizeof *cq->ring);
    if (!rc && !cq->ring) {
        mad_ofi_wait_close(&cq->wait);
        rc = -FI_ENOMEM;
    }
    if (rc) {
        free(cq);
        return rc;
    }
    cq->size = SIZE;
    if (attr->format == FI_CQ_FORMAT_UNSPEC)
        attr->format = FI_CQ_FORMAT_CONTEXT;
    cq->format = attr->format;
    cq->domain = d;
    cq->locked = d->threaded || d->automatic || cq->wait.fd >= 0;
    cq->direct = !cq->locked && cq->format == FI_CQ_FORMAT_TAGGED;
    pthread_mutex_init(&cq->lock, NULL);
    atomic_fetch_add(&d->users, 1);
    cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &fid_ops};
    cq->fid.ops = &cq_ops;
    *out = &cq->fid;
    return 0;
}
