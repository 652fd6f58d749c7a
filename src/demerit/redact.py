"""Takes secrets out of text that is about to leave: each becomes `[REDACTED:<kind>:<fingerprint>]`, the rest stays.

Three ways to know a secret: by its own form (`_FORMS`), by the name that it is given to (`password = ...`), and by the
place where it stands (in a URL, a header, a key file). Everything is looked for in the UTF-8 bytes, where `find` costs
least and lower case keeps every position; each search goes forward only, so hostile text costs no more than any other.
Why no library does it: docs/decisions/010-redaction.md.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple


class Secret(NamedTuple):
    """Where a secret stands in the text, never what it is."""

    kind: str
    start: int
    end: int


_LOOKS = 5  # two for real text; a bound for text that was made to need more


def redact(text: str) -> str:
    """The text with a marker in place of each secret; the same text where there is none.

    Equal secrets get equal fingerprints: the first 8 hex digits of the value's BLAKE2b. Redacting twice changes
    nothing: where something was found, it looks again for what only shows when its neighbour is gone.
    """
    data = text.encode("utf-8", "surrogatepass")
    looks = 0
    while looks < _LOOKS and (found := _found(data)):
        looks += 1
        pieces: list[bytes] = []
        done = 0
        for kind, start, end in found:
            pieces += data[done:start], _marker(kind, data[start:end])
            done = end
        data = b"".join((*pieces, data[done:]))
    return data.decode("utf-8", "surrogatepass") if looks else text


def find_secrets(text: str) -> list[Secret]:
    """What one look at the text finds, in order, none overlapping; positions in characters."""
    data = text.encode("utf-8", "surrogatepass")
    found = _found(data)
    if len(data) == len(text):
        return found
    secrets = []
    at = chars = 0
    for kind, start, end in found:
        first = chars + len(data[at:start].decode("utf-8", "surrogatepass"))
        chars, at = first + len(data[start:end].decode("utf-8", "surrogatepass")), end
        secrets.append(Secret(kind, first, chars))
    return secrets


def redact_value(value: Any) -> Any:
    """A copy of something JSON-like with every string redacted, names of fields too.

    What a field with a telling name holds (`password`, `api_key`, `token`, `authorization`, ...) goes whole, whatever
    its form, unless it is trivial: too short, a variable, a word such as `null`. So does the `value` beside such a
    `name`. Tuples become lists; other types come back as they are. However deep it is, it needs no stack.
    """
    root: list[Any] = [None]
    todo: list[tuple[Any, Any, Any, str | None]] = [(root, 0, value, None)]
    while todo:
        into, at, item, kind = todo.pop()
        if isinstance(item, str):
            into[at] = _redacted_field(kind, item) if kind else redact(item)
        elif isinstance(item, dict):
            fields: dict[Any, Any] = {}
            into[at] = fields
            beside = _kind_of_name(item.get("name"))
            for key, inner in item.items():
                name = redact(key) if isinstance(key, str) else key
                fields[name] = None  # keeps their order
                todo.append((fields, name, inner, _kind_of_name(key) or (beside if key == "value" else None)))
        elif isinstance(item, list | tuple):
            into[at] = places = [None] * len(item)
            todo += ((places, place, inner, kind) for place, inner in enumerate(item))
        else:
            into[at] = item
    return root[0]


def _redacted_field(kind: str, value: str) -> str:
    data = value.encode("utf-8", "surrogatepass")
    # A language model's own tokens are short strings in fields called `token`.
    is_trivial = len(data) < (4 if kind == "password" else 8) or data.lower() in _WORDS
    if is_trivial or _PLACEHOLDER_ALONE.match(data) or (kind == "auth" and not _is_basic(data)):
        return redact(value)
    return _marker(kind, data).decode()


def _marker(kind: str, value: bytes) -> bytes:
    return b"[REDACTED:%s:%s]" % (kind.encode(), blake2b(value).hexdigest()[:8].encode())


_MARKER = re.compile(rb"\[REDACTED:[a-z0-9-]{1,40}:[0-9a-f]{8}\]")


def _found(data: bytes) -> list[Secret]:
    """Secrets in bytes, positions in bytes; what overlaps is one secret, of the kind that begins first."""
    low = data.lower()
    found = [*_by_form(data), *_by_place(data, low), *_by_name(data, low)]
    if not found:
        return found
    markers = _MARKER.finditer(data) if b"[REDACTED:" in data else iter(())
    marker = next(markers, None)
    merged: list[Secret] = []
    for secret in sorted(found, key=lambda secret: (secret.start, -secret.end)):
        while marker and marker.end() <= secret.start:
            marker = next(markers, None)
        if marker and marker.start() < secret.end:
            continue  # it was redacted before
        if merged and secret.start < merged[-1].end:
            if secret.end > merged[-1].end:
                merged[-1] = merged[-1]._replace(end=secret.end)
        else:
            merged.append(secret)
    return merged


def _each(data: bytes, word: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + len(word))


# --- by form ----------------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """kind, how it begins, how it goes on (patterns)."""

    kind: str
    head: bytes
    tail: bytes


# Heads are the makers' own, as their documentation or their tokens have them; lengths are lower bounds, since makers
# lengthen tokens without notice. Each form has a piece of 20 letters, digits, `-` and `_`, by which it is found.
_FORMS = [
    _Form("aws-access-key-id", rb"(?:A(?:KI|SI|BI|CC)A|A3T[A-Z0-9])", rb"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _Form("github-token", rb"gh[pousr]_", rb"[A-Za-z0-9]{36,}"),
    _Form("github-token", rb"github_pat_", rb"[A-Za-z0-9_]{36,}"),
    _Form("gitlab-token", rb"gl(?:pat|dt|ft|soat|rt|rtr|cbt|imt|ptt|agent|oas|ffct|wt)-", rb"[\w.-]{20,}"),
    _Form("gitlab-token", rb"GR1348941", rb"[\w-]{20,}"),
    _Form("slack-token", rb"xox[abeoprs](?:\.xox[bp])?-", rb"[A-Za-z0-9-]{16,}"),
    _Form("slack-token", rb"x(?:app|wfp)-", rb"[A-Za-z0-9-]{20,}"),
    _Form("stripe-key", rb"[srp]k_(?:live|test|prod)_", rb"[A-Za-z0-9]{16,}"),
    _Form("stripe-key", rb"whsec_", rb"[A-Za-z0-9+/=]{24,}"),
    _Form("anthropic-key", rb"sk-ant-", rb"[\w-]{24,}"),
    _Form("openrouter-key", rb"sk-or-v1-", rb"[0-9a-f]{32,}"),
    _Form("openai-key", rb"sk-(?:proj|svcacct|admin|None)-", rb"[\w-]{20,}"),
    _Form("openai-key", rb"sk-", rb"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}"),
    _Form("groq-key", rb"gsk_", rb"[A-Za-z0-9]{32,}"),
    _Form("xai-key", rb"xai-", rb"[A-Za-z0-9]{40,}"),
    _Form("perplexity-key", rb"pplx-", rb"[A-Za-z0-9]{40,}"),
    _Form("replicate-token", rb"r8_", rb"[A-Za-z0-9]{30,}"),
    _Form("nvidia-key", rb"nvapi-", rb"[\w-]{40,}"),
    _Form("langsmith-key", rb"lsv2_(?:pt|sk)_", rb"[0-9a-f]{32}_[0-9a-f]{10}"),
    _Form("hugging-face-token", rb"(?:hf|api_org)_", rb"[A-Za-z0-9]{30,}"),
    _Form("google-api-key", rb"AIza", rb"[\w-]{35}(?![\w-])"),
    _Form("google-oauth", rb"GOCSPX-", rb"[\w-]{20,}"),
    _Form("google-oauth", rb"ya29\.", rb"[\w-]{20,}(?:\.[\w-]+)*"),
    _Form("google-oauth", rb"1//0", rb"[\w-]{30,}"),
    _Form("npm-token", rb"npm_", rb"[A-Za-z0-9]{36,}"),
    _Form("pypi-token", rb"pypi-AgE", rb"[\w-]{40,}"),
    _Form("rubygems-key", rb"rubygems_", rb"[0-9a-f]{40,}"),
    _Form("docker-token", rb"dckr_[op]at_", rb"[\w-]{20,}"),
    _Form("twilio-key", rb"(?:SK|AC)", rb"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _Form("sendgrid-key", rb"SG\.", rb"[\w-]{16,}\.[\w-]{16,}"),
    _Form("mailgun-key", rb"key-", rb"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _Form("mailchimp-key", rb"[0-9a-f]{32}-us", rb"[0-9]{1,2}(?![A-Za-z0-9])"),
    _Form("brevo-key", rb"xkeysib-", rb"[0-9a-f]{60,}-\w{16}"),
    _Form("telegram-token", rb"[0-9]{8,10}:A", rb"[\w-]{34}(?![\w-])"),
    _Form("discord-token", rb"[MNO][\w-]{23,27}\.", rb"[\w-]{6}\.[\w-]{27,}"),
    _Form("vault-token", rb"hv[sbr]\.", rb"[\w-]{24,}"),
    _Form("terraform-token", rb"[A-Za-z0-9]{14}\.atlasv1\.", rb"[\w=-]{60,}"),
    _Form("digitalocean-token", rb"do[opr]_v1_", rb"[0-9a-f]{40,}"),
    _Form("heroku-key", rb"HRKU-", rb"[\w-]{36,}"),
    _Form("shopify-token", rb"shp(?:at|ca|pa|ss|ua|tka)_", rb"[A-Za-z0-9]{32,}"),
    _Form("square-token", rb"sq0(?:atp|csp|idp)-", rb"[\w-]{22,}"),
    _Form("square-token", rb"EAAA", rb"[\w-]{56,}"),
    _Form("facebook-token", rb"EAA[A-Z]", rb"[A-Za-z0-9]{80,}"),
    _Form("databricks-token", rb"dapi", rb"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _Form("cloudflare-key", rb"v1\.0-", rb"[0-9a-f]{24}-[0-9a-f]{100,}"),
    _Form("grafana-token", rb"gl(?:sa|c)_", rb"[A-Za-z0-9+/=]{30,}(?:_[0-9a-f]{8})?"),
    _Form("new-relic-key", rb"NR(?:AK|JS|II|RA|AA|SP)-", rb"[A-Za-z0-9-]{19,}"),
    _Form("linear-key", rb"lin_(?:api|oauth)_", rb"[A-Za-z0-9]{32,}"),
    _Form("notion-token", rb"ntn_", rb"[A-Za-z0-9]{40,}"),
    _Form("notion-token", rb"secret_", rb"[A-Za-z0-9]{43}(?![A-Za-z0-9])"),
    _Form("postman-key", rb"PMAK-", rb"[0-9a-f]{20,}-[0-9a-f]{30,}"),
    _Form("atlassian-token", rb"AT[AC]TT3", rb"[\w=-]{60,}"),
    _Form("sentry-token", rb"sntry[su]_", rb"[\w+/=-]{40,}"),
    _Form("doppler-token", rb"dp\.(?:st|pt|ct|scim|audit|sa)\.(?:[a-z0-9_-]{1,12}\.)?", rb"[A-Za-z0-9]{40,}"),
    _Form("planetscale-secret", rb"pscale_(?:pw|tkn|oauth)_", rb"[\w.=-]{30,}"),
    _Form("supabase-key", rb"sbp_", rb"[0-9a-f]{40,}"),
    _Form("supabase-key", rb"sb_secret_", rb"[\w-]{20,}"),
    _Form("figma-token", rb"fig[dorhu]_", rb"[\w-]{36,}"),
    _Form("airtable-token", rb"pat[A-Za-z0-9]{14}\.", rb"[0-9a-f]{64}"),
    _Form("pulumi-token", rb"pul-", rb"[0-9a-f]{40}(?![A-Za-z0-9])"),
    _Form("alibaba-key", rb"LTAI", rb"[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"),
    _Form("age-key", rb"AGE-SECRET-KEY-1", rb"[A-Z0-9]{50,}"),
    _Form("jwt", rb"eyJ", rb"[\w-]{12,}+\.eyJ[\w-]{8,}+\.[\w-]{16,}"),
]

_HEADS = b"(?:" + b"|".join(dict.fromkeys(form.head for form in _FORMS)) + b")"
_HEAD = re.compile(_HEADS)
# Where a form may begin: after anything but a letter or digit, or after a letter or digit that ends an escape
# (`\n`, `\u003d`), a code in a URL (`%20`), a colour of a terminal, Telegram's `/bot`.
_EDGE = (
    rb"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})"
    rb"|(?<=\[\dm)|(?<=\[\d\dm)|(?<=/bot))"
)
_HEAD_AT_EDGE = re.compile(_EDGE + _HEADS)
_HEAD_INSIDE = re.compile(b"(?<=[_-])(?=[A-Za-z0-9])" + _HEADS)
_FORM = re.compile(b"|".join(b"(%s%s)" % (form.head, form.tail) for form in _FORMS))
_RUN = re.compile(rb"[A-Za-z0-9_-]{20,}")
_OPENERS = frozenset(b"\\%[;/.:")  # before a run: what may put the edge elsewhere than at its begin
_BEFORE_RUN = 28  # as much of a form as may stand before its long piece: `...14 letters....atlasv1.`
_INTO_RUN = 48  # the rest of an escape at its begin, and a head


def _by_form(data: bytes) -> Iterator[Secret]:
    done = 0
    for run in _RUN.finditer(data):
        start, end = run.span()
        if end <= done:
            continue
        at = max(done, start)
        may_be_jwt = data.startswith(b".eyJ", end)
        head = _HEAD.match(data, at, end + 1)
        if not head and start and data[start - 1] in _OPENERS:
            head = _HEAD_AT_EDGE.search(data, max(done, start - _BEFORE_RUN), min(start + _INTO_RUN, end + 1))
        while head or (head := _HEAD_INSIDE.search(data, at, end + 1)):
            at, first, head = head.start() + 1, head.start(), None
            if data.startswith(b"eyJ", first):  # it goes to the end of the run: one look is enough, or it costs squares
                if not may_be_jwt:
                    continue
                may_be_jwt = False
            match = _FORM.match(data, first)
            while match:
                at = done = match.end()
                if not _is_dummy(match[0]):
                    yield Secret(_FORMS[(match.lastindex or 1) - 1].kind, match.start(), at)
                match = _FORM.match(data, at)  # one right after another begins at no edge


def _is_dummy(token: bytes) -> bool:
    """It only shows the form: `sk-ant-xxxxxxxxxxxx`."""
    return b"xxxxxx" in token.lower()


# --- by place ---------------------------------------------------------------------------------------------------

_GAP = rb"(?:[ \t\r\n]|\\{1,8}[nrt]){1,64}"  # white space, as it is or escaped, however often
# Between two lines of a key: also what quotes them, and the numbers of lines that tools print before them.
_BREAK = rb"(?:[ \t\r\n]|\\{1,8}[nrt]|\\{0,8}[\"',+]|[0-9]{1,7}(?:\xe2\x86\x92|\t|\\t)){0,24}"
_BASE64 = rb"[A-Za-z0-9+/=]"
_BEGIN = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(rb"-----END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_HEADER = rb"(?:[A-Z][A-Za-z-]{2,20}: [^\r\n\\]{0,100}" + _BREAK + rb"){0,6}"  # Proc-Type: 4,ENCRYPTED
_LINES = _BASE64 + rb"{16,}+(?:" + _BREAK + _BASE64 + rb"{16,}+)*+"
_BODY = re.compile(_BREAK + _HEADER + _LINES)
_SHORT = re.compile(_BREAK + _BASE64 + rb"{3,15}(?:\r?\n|\\{1,8}n)(?=-----END )")  # of somebody's test
_CUT = re.compile(_BREAK + _BASE64 + rb"{1,15}\W{0,3}\Z")  # the last line where a text was cut
_KEY_BYTES = 1 << 14  # no key is longer, by far

_URL = re.compile(
    rb"://(?:([^\s/?#@:\"'`<>\\]{20,255})|[^\s/?#@:\"'`<>\\]{0,128}:([^\s/@\"'`<>\\]{1,255}))@(?=[\w\[$])"
)
_COOKIES = re.compile(
    rb"cookie\\{0,8}[\"']?[ \t]?:[ \t]?\\{0,8}[\"']?((?:[\w.-]{1,64}=[^;\s\"'\\]{0,4096}(?:; ?)?){1,50})"
)
_COOKIE = re.compile(rb"[\w.-]+=([^;\s\"'\\]{16,})")
_BASIC = re.compile(rb"basic[ \t]+([a-z0-9+/]{8,}={0,2})")

# In lower case: what is looked for, then what stands there; its group, or all of it, is the secret.
_PLACES = [
    (b"private-lines:", "private-key", re.compile(
        rb"private-lines: ?[0-9]{1,4}" + _BREAK + _LINES + rb"(?:" + _BREAK + rb"private-mac: ?[0-9a-f]{16,})?")),
    (b"rwrty0iy", "minisign-key", re.compile(rb"rwrty0iy[a-z0-9+/]{90,}={0,2}")),
    (b"hooks.slack.com/", "webhook", re.compile(rb"hooks\.slack\.com/[a-z]{5,12}/([\w/-]{20,200})")),
    (b"/api/webhooks/", "webhook", re.compile(rb"/api/webhooks/[0-9]{15,22}/([\w-]{40,100})")),
    (b"/webhookb2/", "webhook", re.compile(rb"/webhookb2/([\w@/-]{60,250})")),
    (b"machine ", "password", re.compile(
        rb"machine +[^\s\\]{1,255}" + _GAP + rb"login" + _GAP + rb"[^\s\\]{1,255}" + _GAP + rb"password" + _GAP
        + rb"([^\s\\\"{<$][^\s\\\"]{0,254})")),
    (b"sig=", "url-signature", re.compile(rb"(?:(?<=[?&;])|(?<=u0026))sig=([\w%+/=.-]{20,2048})")),
    (b"-signature=", "url-signature", re.compile(rb"-signature=([\w%+/=.-]{20,2048})")),
]  # fmt: skip
# The same, for what is also said of other things: it has to have a letter and a digit.
_LIKELY_PLACES = [
    (b"bearer", "bearer", re.compile(rb"bearer(?:[ \t]|%20)+([\w.~+/=-]{16,8192})")),
    (b"-u ", "password", re.compile(rb"-u +\\{0,8}[\"']?[\w.@+-]{1,128}:([^\s\"'`\\]{4,256})")),
    (b"--user", "password", re.compile(rb"--user[ =]\\{0,8}[\"']?[\w.@+-]{1,128}:([^\s\"'`\\]{4,256})")),
]
_AZURE = re.compile(rb"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])")


def _by_place(data: bytes, low: bytes) -> Iterator[Secret]:
    yield from _private_keys(data)
    yield from _in_headers(data, low)
    for at in _each(data, b"://"):
        if match := _URL.match(data, at):
            start, end = match.span(match.lastindex or 0)
            if _is_password_of_url(data[at + 3 : start - 1], data[start:end], match.lastindex == 1):
                yield Secret("url-credential", start, end)
    for at in _each(data, b"Q~"):
        if match := _AZURE.match(data, max(0, at - 4)):
            yield Secret("azure-client-secret", *match.span())
    for word, kind, pattern in _PLACES:
        for at in _each(low, word):
            if match := pattern.match(low, at):
                yield Secret(kind, *match.span(pattern.groups))
    for word, kind, pattern in _LIKELY_PLACES:
        for at in _each(low, word):
            if (match := pattern.match(low, at)) and _is_mixed(match[1][:_LOOK]) and not _PLACEHOLDER.search(match[1]):
                yield Secret(kind, *match.span(1))


def _in_headers(data: bytes, low: bytes) -> Iterator[Secret]:
    for at in _each(low, b"basic"):
        if (match := _BASIC.match(low, at)) and _is_basic(data[match.start(1) : match.end(1)]):
            yield Secret("basic-auth", *match.span(1))
    done = 0
    for at in _each(low, b"cookie"):
        if at >= done and (match := _COOKIES.match(low, at)):
            done = match.end()
            for cookie in _COOKIE.finditer(low, *match.span(1)):
                if _is_mixed(cookie[1][:_LOOK]):
                    yield Secret("cookie", *cookie.span(1))


def _private_keys(data: bytes) -> Iterator[Secret]:
    ends = _END.finditer(data) if b"-----END " in data else iter(())
    end = next(ends, None)
    for at in _each(data, b"-----BEGIN "):
        begin = _BEGIN.match(data, at)
        body = begin and (_BODY.match(data, begin.end()) or _SHORT.match(data, begin.end()))
        if not body:
            continue  # somebody speaks of keys
        while end and end.start() < body.end():
            end = next(ends, None)
        if end and end.end() - at < _KEY_BYTES:
            last = end.end()
        else:
            rest = _CUT.match(data, body.end())
            last = rest.end() if rest else body.end()
        yield Secret("private-key", at, last)


def _is_basic(value: bytes) -> bool:
    """It is `user:password` in base64."""
    try:
        text = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in text and text.isprintable()


def _is_password_of_url(user: bytes, value: bytes, is_user: bool) -> bool:
    if _PLACEHOLDER.search(value):
        return False
    return _is_mixed(value) if is_user else value != user and value.lower() not in _WORDS


# --- by name ----------------------------------------------------------------------------------------------------

_LOOK = 256  # bytes of a value by which it is judged
_NAME_BYTES = 64
_IN_NAMES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_WORDS_IN_NAMES = (b"pass", b"pwd", b"secret", b"token", b"key", b"auth")
_ENVIRONMENT = re.compile(
    rb"(?:production|prod|staging|development|dev|test|live|old|new|value|base64|b64|data|[0-9]{1,2})\Z"
)
_PASS = re.compile(rb"(?:(?:\A|[_.-])pass|[a-z]Pass|_PASS)\Z")
# The end of a name, without `_` and `-`. What is counted, shown or public has other ends: tokens, tokenType, publicKey.
_ENDS = {
    "password": (b"password", b"passwd", b"passphrase", b"pwd"),
    "secret": (b"secret",),
    "token": (b"token",),
    "authorization": (b"authorization",),
    "api-key": tuple(
        word + b"key"
        for word in b"api access account auth client deploy encryption master private secret service shared signing "
        b"ssh storage subscription".split()
    ),
}
_NO_SECRET = tuple(
    word + b"token"
    for word in b"next page continuation cancellation idempotency change publickey "
    b"stop eos bos pad unk sep mask".split()
)

_ASSIGNED = re.compile(
    rb"([\w-]{0,64}+)(?:\\{0,8}[\"'`])?\]?"
    rb"(?:[ \t]{0,16}(?::[ \t]{0,4}[A-Za-z][\w.|\[\] ]{0,24}=|=>|:=|={1,3}|!==?|:)[ \t]{0,16}|(>)|([ \t]{1,8}))"
)
_QUOTE = re.compile(rb"[bBfFrRuU@]{0,2}(\\{0,7})[\"'`]")
_BARE = re.compile(rb"(?:[^\s\"'`;<>\\,]|,(?!\s|[\w-]{0,32}[=:]|[\"'\\]|\Z))+")
_BARE_IN_URL = re.compile(rb"[^\s\"'`;<>\\,&#?]+")
_SCHEME = re.compile(rb"(?:bearer|basic|token|bot|apikey|ssws)(?:[ \t]|%20|\+)+", re.I)

_VARIABLE = rb"\A(?:\$\{?[A-Za-z_]\w*\}?|%\(?\w+\)?[%s]|<.*>|\{.*\}|\[.*\]|\*+|\.+|x+|X+)\Z"
_PLACEHOLDER_ALONE = re.compile(_VARIABLE, re.S)
_PLACEHOLDER = re.compile(
    _VARIABLE
    + rb"|\$\{|\{\{|\$\(|\.\.\.|\xe2\x80\xa6|\*\*\*|xxxx|XXXX|your[_-]|YOUR[_-]|REDACTED|redacted|placeholder",
    re.S,
)
_WORDS = frozenset(
    b"password passwd pass pw secret token apikey api_key key none null true false undefined string str bearer basic "
    b"required optional changeme redacted username user root postgres admin aws4-hmac-sha256".split()
)
_CODE = re.compile(
    rb"[()\[{<]|[0-9]{1,6}[)\]}]|[A-Za-z_$][\w$]{0,60}(?:(?:\?\.|\.|::|->)[A-Za-z_][\w$]{0,60}){0,12}(?:[(\[{]|[.,:;)\]}]*\Z)"
)
_PATTERN = re.compile(rb"[\[({<^]|\\")
_TYPE = re.compile(rb"[A-Z][A-Za-z]{1,12}[0-9]{1,3}[A-Z][A-Za-z]{2,20}\Z")  # Uint8Array
_NAME_OF_CODE = re.compile(rb"[A-Za-z_$][\w$]*\Z")
_PATH = re.compile(rb"(?:\.{1,2}|~|/[a-z]{2,12}|/Users|[A-Za-z]:)?[/\\][\w./\\ -]*\Z|[a-z][a-z+]{1,12}://|arn:")


def _by_name(data: bytes, low: bytes) -> Iterator[Secret]:
    bare = _Bare(data)
    for word in _WORDS_IN_NAMES:
        at = low.find(word)
        while at >= 0:
            following = at + len(word)
            if match := _ASSIGNED.match(data, following):
                secret = _assigned(data, at, match, bare)
                following = match.end(1)  # the rest of the name has the same value
                if secret:
                    following = secret.end
                    yield secret
            at = low.find(word, following)


class _Bare:
    """Where values without quotes end. One that is itself full of names is read once, not once a name."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._start = self._end = 0

    def end(self, start: int) -> int:
        if not self._start <= start < self._end:
            self._start, self._end = start, _trimmed(_BARE.match(self._data, start), start)
        return self._end


def _trimmed(match: re.Match[bytes] | None, start: int) -> int:
    return start + len(match[0].rstrip(b".,:)]}")) if match else start  # the end of a sentence, of a call


def _assigned(data: bytes, at: int, match: re.Match[bytes], bare: _Bare) -> Secret | None:
    """The secret that is given to the name around `at`."""
    first = at
    while first and at - first < _NAME_BYTES and data[first - 1] in _IN_NAMES:
        first -= 1
    before = data[max(0, first - 2) : first]
    if before[-1:] == b"\\" and data[first] in b"bfnrt" and first < at:
        first += 1
    if data.endswith(b"[REDACTED:", 0, first):
        return None
    name = data[first : match.end(1)]
    kind = _kind_of_name(name[-_NAME_BYTES:].decode())
    if kind is None or not _is_given(data, match, before, name):
        return None
    quote = _QUOTE.match(data, match.end())
    start = quote.end() if quote else match.end()
    end = _closing(data, quote) if quote else -1
    is_quoted = end >= 0
    if scheme := _SCHEME.match(data, start, end if is_quoted else len(data)):
        start = scheme.end()
    if not is_quoted:
        is_in_url = before[-1:] in (b"?", b"&") or before == b"p;"  # ?name=, &name=, &amp;name=
        end = _trimmed(_BARE_IN_URL.match(data, start), start) if is_in_url else bare.end(start)
    if end <= start or (match[2] and data[end : end + 2] != b"</"):
        return None
    is_of_shell = data[match.end(1) : match.end()] == b"="
    if not _is_value(data[start : min(end, start + _LOOK)], kind, name, is_quoted, is_of_shell):
        return None
    return Secret("basic-auth" if kind == "auth" else kind, start, end)


def _is_given(data: bytes, match: re.Match[bytes], before: bytes, name: bytes) -> bool:
    """What follows the name is its value: not the text after a tag or a word, not the next part of an ARN."""
    if match[2]:
        return before[-1:] == b"<"
    if match[3]:
        return name.startswith(b"--")
    if before[-1:] == b":":
        return before != b"::" and data[match.end() - 1 : match.end()] != b":"
    return True


def _closing(data: bytes, quote: re.Match[bytes]) -> int:
    """Where the quote that was opened is closed, on the same line; -1 for nowhere."""
    depth = len(quote[1])
    mark = data[quote.end() - 1 : quote.end()]
    end = data.find(mark, quote.end(), quote.end() + 8192)
    for _ in range(8):
        if end < 0:
            return -1
        slashes = end - len(data[quote.end() : end].rstrip(b"\\")) - quote.end()
        if (slashes - depth) % (2 * depth + 2) == 0:  # any other number escapes a quote within the value
            end -= depth
            return end if not _NEWLINE.search(data, quote.end(), end) else -1
        end = data.find(mark, end + 1, quote.end() + 8192)
    return -1


_NEWLINE = re.compile(rb"[\r\n]")


def _kind_of_name(name: object) -> str | None:
    """What a field of this name holds; None for what is no secret."""
    if not isinstance(name, str) or len(name) > _NAME_BYTES or not name.isascii():
        return None
    plain = name.encode().lower().translate(None, b"_-. ")
    if plain in (b"auth", b"cookie", b"setcookie"):
        return plain[-6:].decode()
    plain = _ENVIRONMENT.sub(b"", plain)
    for kind, ends in _ENDS.items():
        if plain.endswith(ends):
            return None if plain.endswith(_NO_SECRET) else kind
    return "password" if _PASS.search(name.encode()) else None


def _is_value(value: bytes, kind: str, name: bytes, is_quoted: bool, is_of_shell: bool) -> bool:
    """Text given to a telling name is a secret, and no word, variable, call, type, path or sentence."""
    if (
        len(value) < (6 if kind in ("password", "secret") else 8)
        or _PLACEHOLDER.search(value)
        or value.lower() in _WORDS
    ):
        return False
    if kind in ("auth", "cookie"):
        return kind == "auth" and _is_basic(value)
    if _PATH.match(value) or b" " in value or (kind != "password" and (_PATTERN.match(value) or _TYPE.match(value))):
        return False
    is_mixed = _is_mixed(value) or (kind == "password" and value.isdigit())
    if is_quoted:
        return is_mixed or (kind == "password" and bool(_SYMBOL.search(value)))
    if _CODE.match(value) and not (is_mixed and _NAME_OF_CODE.match(value)):
        # Letters only: in a shell, or too long for a word, unless it is a variable that is named like what it holds.
        is_long = len(value) >= 16 and value.islower() and not any(word in value for word in _WORDS_IN_NAMES)
        return is_of_shell and value.isalpha() and (is_long or (name.isupper() and len(value) >= 8))
    return is_mixed or bool(_SYMBOL.search(value))


_SYMBOL = re.compile(rb"[!@#$%^&*+=~?](?!\Z)")
_DIGIT = re.compile(rb"[0-9]")
_LETTER = re.compile(rb"[A-Za-z]")


def _is_mixed(value: bytes) -> bool:
    return bool(_DIGIT.search(value) and _LETTER.search(value))
