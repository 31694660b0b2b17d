/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/tree.h"

#ifdef HAVE_LIBCONFIG
#include "base/nearest.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 60 /* bytes of a line quoted in messages */

struct madi_tree {
    config_t config;
};

/* Return a line without leading blanks and without its newline. */
static const char *line_at(const madi_topo_build_t *build, int line, int *len)
{
    const char *text, *end;
    if (line < 1 || line > build->lines) {
        *len = 0;
        return "";
    }
    text = build->text[line - 1];
    end = build->text[line];
    while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
        end--;
    while (text < end && (*text == ' ' || *text == '\t'))
        text++;
    *len = (int)(end - text);
    return text;
}

static bool lines_find(madi_topo_build_t *build, const char *text)
{
    for (const char *at = text; at;) {
        const char *end = strchr(at, '\n');
        build->text = madi_topo_grow(&build->scratch, build->text, build->lines, sizeof *build->text);
        if (!build->text)
            return false;
        build->text[build->lines++] = at;
        at = end ? end + 1 : NULL;
    }
    build->text = madi_topo_grow(&build->scratch, build->text, build->lines, sizeof *build->text);
    if (build->text)
        build->text[build->lines] = text + strlen(text);
    return build->text != NULL;
}

static bool odd_quotes(const char *text, int len)
{
    int quotes = 0;
    for (int i = 0; i < len; i++)
        quotes += text[i] == '"';
    return quotes % 2;
}

/* Return a hint about a frequent mistake, judged by the line. */
static const char *syntax_hint(const char *text, int len)
{
    bool plain = true, odd = odd_quotes(text, len);
    for (int i = 0; i < len; i++)
        plain &= (unsigned char)text[i] < 128;
    if (!plain && !odd)
        return "; there is a character in this line that is not plain ASCII, maybe a quotation mark";
    return odd ? "; the number of '\"' in this line is odd"
               : "; names begin with a letter, and go on with letters, digits, "
                 "'-' and '_'";
}

/* Return the line to report for an error at the end of the file.  An unclosed string extends to the end of the file, so
 * this is the first line with an odd number of quotation marks; if there is none, the given line. */
static int line_meant(const madi_topo_build_t *build, int line)
{
    for (int i = 1; i <= build->lines; i++) {
        int len;
        const char *text = line_at(build, i, &len);
        if (odd_quotes(text, len))
            return i;
    }
    return line;
}

/* Report libconfig's syntax error; libconfig stops at the first one. */
static void syntax_wrong(madi_topo_build_t *build, const madi_tree_t *tree)
{
    int line = config_error_line(&tree->config), len;
    const char *what = config_error_text(&tree->config), *text = line_at(build, line, &len), *hint;
    if (!len)
        text = line_at(build, line = line_meant(build, line), &len);
    hint = syntax_hint(text, len);
    if (len > SHOWN)
        len = SHOWN;
    if (what && !strcmp(what, "duplicate setting name"))
        madi_topo_wrong(build, line, "a setting is there twice: leave one: '%.*s'", len, text);
    else if (what && !strcmp(what, "mismatched element type in array"))
        madi_topo_wrong(
            build, line,
            "values between [ and ] must have one type; lists of different types are written between ( and ): '%.*s'", len,
            text);
    else if (what && !strcmp(what, "memory exhausted"))
        madi_topo_wrong(build, line, "groups and lists are too deep inside each other");
    else if (!len)
        madi_topo_wrong(build, line, "syntax error at the end: a '}', ')', ']', '\"' or the value of a setting is missing");
    else
        madi_topo_wrong(build, line,
                        "syntax error at or before '%.*s': settings are written name = value; with texts in \"...\", "
                        "groups in { }, lists in ( ), arrays in [ ]%s",
                        len, text, hint);
}

/* True if the text has an @include, which is an error.  libconfig exits the process if it has to include a directory, and
 * hangs on some files. */
static bool includes(madi_topo_build_t *build)
{
    for (int line = 1; line <= build->lines; line++) {
        const char *text = build->text[line - 1];
        if (!strncmp(text + strspn(text, " \t\r\v\f"), "@include", 8)) {
            madi_topo_wrong(build, line, "@include is not understood: write the whole topology into one file");
            return true;
        }
    }
    return false;
}

madi_tree_t *madi_tree_make(madi_topo_build_t *build, const char *text, size_t len)
{
    madi_tree_t *tree = madi_topo_alloc(&build->scratch, 1, sizeof *tree);
    char *copy = madi_topo_alloc(&build->scratch, len + 1, 1);
    if (!tree || !copy)
        return NULL;
    memcpy(copy, text, len);
    if (memchr(copy, 0, len)) {
        madi_topo_wrong(build, 0, "this is not a text: there is a zero byte in it");
        return NULL;
    }
    if (!strncmp(copy, "\xef\xbb\xbf", 3))
        memset(copy, ' ', 3); /* the byte order mark that some editors write for UTF-8 */
    if (!lines_find(build, copy) || includes(build))
        return NULL;
    config_init(&tree->config);
    if (config_read_string(&tree->config, copy) != CONFIG_TRUE) {
        syntax_wrong(build, tree);
        config_destroy(&tree->config);
        return NULL;
    }
    return tree;
}

const config_setting_t *madi_tree_root(const madi_tree_t *tree)
{
    return config_root_setting(&tree->config);
}

void madi_tree_free(madi_tree_t *tree)
{
    if (tree)
        config_destroy(&tree->config);
}

/* Return the line of a setting.  For a string in an array or a list, libconfig reports the line of the next token, so the
 * string is searched. */
int madi_tree_line(const madi_topo_build_t *build, const config_setting_t *setting)
{
    int line = (int)config_setting_source_line(setting);
    const char *value;
    if (setting->name || config_setting_type(setting) != CONFIG_TYPE_STRING)
        return line;
    value = config_setting_get_string(setting);
    for (int at = line; at > 0 && line - at < 50; at--) {
        int len;
        const char *text = line_at(build, at, &len);
        if (memmem(text, (size_t)len, value, strlen(value)))
            return at;
    }
    return line;
}

const char *madi_tree_type(const config_setting_t *setting)
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_GROUP: return "a group";
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64: return "a whole number";
    case CONFIG_TYPE_FLOAT: return "a number with a point";
    case CONFIG_TYPE_STRING: return "a text";
    case CONFIG_TYPE_BOOL: return "a true or false";
    case CONFIG_TYPE_ARRAY: return "an array";
    case CONFIG_TYPE_LIST: return "a list";
    default: return "nothing";
    }
}

static void setting_unknown(madi_topo_build_t *build, const config_setting_t *s, const madi_tree_entry_t *table, int n)
{
    const char *name = config_setting_name(s);
    char list[300] = "";
    int best = 99, nearest = 0;
    for (int i = 0; i < n; i++) {
        int d = madi_distance(name, strlen(name), table[i].name);
        if (d < best)
            best = d, nearest = i;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", table[i].name);
    }
    if (best <= 3 && best < (int)strlen(name))
        madi_topo_wrong(build, madi_tree_line(build, s), "there is no setting '%.80s'; did you mean '%s'?", name,
                        table[nearest].name);
    else
        madi_topo_wrong(build, madi_tree_line(build, s), "there is no setting '%.80s'; there are: %s", name, list);
}

bool madi_tree_group(madi_topo_build_t *build, const config_setting_t *group, const madi_tree_entry_t *table, int n,
                     const config_setting_t **found)
{
    int before = build->wrong;
    for (int i = 0; i < n; i++)
        found[i] = NULL;
    for (int j = 0; j < config_setting_length(group); j++) {
        const config_setting_t *s = config_setting_get_elem(group, (unsigned)j);
        int i = 0;
        while (i < n && strcmp(table[i].name, config_setting_name(s)))
            i++;
        if (i == n)
            setting_unknown(build, s, table, n);
        else if (!(table[i].types & 1 << config_setting_type(s)))
            madi_topo_wrong(build, madi_tree_line(build, s), "%s is %s: give %s", table[i].name, madi_tree_type(s),
                            table[i].form);
        else
            found[i] = s;
    }
    for (int i = 0; i < n && build->wrong == before; i++)
        if (table[i].needed && !found[i])
            madi_topo_wrong(build, madi_tree_line(build, group), "%s is missing: give %s", table[i].name, table[i].form);
    return build->wrong == before;
}

#endif
