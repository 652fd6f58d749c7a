"""Secrets of many kinds, all invented, for tests of what must not leave: none of them may be in any export.

They are put together when this module is loaded, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import random
import string
from typing import NamedTuple

_DICE = random.Random(20260301)  # the same values in every run
_ALNUM = string.ascii_letters + string.digits
_UPPER = string.ascii_uppercase + string.digits
_LOWER = string.ascii_lowercase + string.digits
_HEX = "0123456789abcdef"
_BASE64 = _ALNUM + "+/"
_URLSAFE = _ALNUM + "_-"


def _drawn(alphabet: str, length: int) -> str:
    """Characters with a letter first and last and a digit second, as rules of word edges and entropy expect."""
    letters = "".join(c for c in alphabet if c.isalpha())
    middle = "".join(_DICE.choice(alphabet) for _ in range(length - 3))
    return _DICE.choice(letters) + _DICE.choice("23456789") + middle + _DICE.choice(letters)


def _base64_of(length: int) -> str:
    return base64.b64encode(_DICE.randbytes(length)).decode()


def _pem(kind: str, length: int) -> str:
    body = _base64_of(length)
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    label = " ".join((*kind.split(), "PRIVATE", "KEY"))
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])


def _json_base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


_JWT = ".".join(
    (_json_base64('{"alg":"HS256","typ":"JWT"}'), _json_base64('{"sub":"1234567890","n":7}'), _drawn(_URLSAFE, 43))
)
_UUID = "-".join(_drawn(_HEX, n) for n in (8, 4, 4, 4, 12))


class _Plant(NamedTuple):
    value: str
    line: str
    """With {} where the value goes."""


_PLANTS: dict[str, _Plant] = {
    "AWS access key id": _Plant(
        "AK" + "IA" + "".join(_DICE.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(16)),
        "aws_access_key_id = {}",
    ),
    "AWS secret access key": _Plant(_drawn(_BASE64, 40), "export AWS_SECRET_ACCESS_KEY={}"),
    "AWS session token": _Plant("IQoJb3JpZ2lu" + _drawn(_BASE64, 300), "AWS_SESSION_TOKEN={} aws s3 ls"),
    "GitHub classic token": _Plant("gh" + "p_" + _drawn(_ALNUM, 36), "git clone with token {} as shown"),
    "GitHub fine-grained token": _Plant(
        "github" + "_pat_" + _drawn(_ALNUM, 22) + "_" + _drawn(_ALNUM, 59), "gh auth login: {}."
    ),
    "GitHub app token": _Plant("gh" + "s_" + _drawn(_ALNUM, 36), '{{"token": "{}"}}'),
    "GitLab token": _Plant("gl" + "pat-" + _drawn(_URLSAFE, 20), "curl --header 'PRIVATE-TOKEN: {}' localhost"),
    "Slack bot token": _Plant("xo" + "xb-" + "2345678901-2345678901234-" + _drawn(_ALNUM, 24), "SLACK={}"),
    "Slack app token": _Plant("xa" + "pp-1-A02ABCDEFGH-2345678901234-" + _drawn(_HEX, 64), "uses {} for sockets"),
    "Slack webhook": _Plant(
        "T02" + _drawn(_UPPER, 8) + "/B03" + _drawn(_UPPER, 8) + "/" + _drawn(_ALNUM, 24),
        "curl https://hooks.slack" + ".com/services/{} -d hi",
    ),
    "Stripe key": _Plant("sk" + "_live_" + _drawn(_ALNUM, 24), "stripe.api_key = '{}'"),
    "Stripe restricted key": _Plant("rk" + "_live_" + _drawn(_ALNUM, 99), "stripe login with {}"),
    "Stripe webhook secret": _Plant(
        "wh" + "sec_" + _drawn(_ALNUM, 32), "Your webhook signing secret is {} (^C to quit)"
    ),
    "OpenAI key": _Plant("sk" + "-" + _drawn(_ALNUM, 20) + "T3Blbk" + "FJ" + _drawn(_ALNUM, 20), "OPENAI_API_KEY={}"),
    "OpenAI project key": _Plant(
        "sk" + "-proj-" + _drawn(_URLSAFE, 74) + "T3Blbk" + "FJ" + _drawn(_URLSAFE, 74),
        "Incorrect API key provided: {}.",
    ),
    "Anthropic key": _Plant("sk" + "-ant-api03-" + _drawn(_URLSAFE, 93) + "AA", "x-api-key: {}"),
    "OpenRouter key": _Plant("sk" + "-or-v1-" + _drawn(_HEX, 64), "client = OpenAI('{}')"),
    "Groq key": _Plant("gs" + "k_" + _drawn(_ALNUM, 52), "called with {} and failed"),
    "xAI key": _Plant("xa" + "i-" + _drawn(_ALNUM, 80), "called with {} and failed"),
    "Google API key": _Plant("AI" + "za" + _drawn(_URLSAFE, 35), "https://maps.example.com/js?key={}&v=3"),
    "Google OAuth client secret": _Plant("GO" + "CSPX-" + _drawn(_URLSAFE, 28), '"client_secret":"{}"'),
    "Google access token": _Plant("ya" + "29." + _drawn(_URLSAFE, 150), "gcloud printed {} once"),
    "Google service account key": _Plant(
        _pem("", 800).replace("\n", "\\n"), '"private_key": "{}\\n", "client_email": "a@b.example"'
    ),
    "Azure storage key": _Plant(
        _base64_of(64), "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};EndpointSuffix=core.example"
    ),
    "Azure client secret": _Plant(_drawn(_ALNUM, 3) + "8Q" + "~" + _drawn(_ALNUM, 34), "az login -p {}"),
    "Azure shared access signature": _Plant(
        _base64_of(32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"),
        "https://shop.blob.example/c/f?sv=2024-11-04&sp=r&sig={}&se=2026",
    ),
    "npm token": _Plant("np" + "m_" + _drawn(_ALNUM, 36), "//registry.example/:_authToken={}"),
    "npm legacy token": _Plant(_UUID, "//registry.example/:_authToken={}"),
    "PyPI token": _Plant("py" + "pi-AgEIcHlwaS5vcmc" + _drawn(_URLSAFE, 100), "twine upload -u __token__ -p {}"),
    "Twilio API key": _Plant("S" + "K" + _drawn(_HEX, 32), "Client('{}')"),
    "Twilio auth token": _Plant(_drawn(_HEX, 32), "TWILIO_AUTH_TOKEN={}"),
    "SendGrid key": _Plant(
        "S" + "G." + _drawn(_URLSAFE, 22) + "." + _drawn(_URLSAFE, 43), "sendgrid said {} is revoked"
    ),
    "Mailgun key": _Plant("ke" + "y-" + _drawn(_HEX, 32), "curl -s --user 'api:{}' localhost"),
    "Mailchimp key": _Plant(_drawn(_HEX, 32) + "-us" + "14", "mailchimp {} works"),
    "Telegram bot token": _Plant(
        "2345678901" + ":AA" + _drawn(_URLSAFE, 33), "https://api.telegram.example/bot{}/getMe"
    ),
    "Discord bot token": _Plant(
        "MT" + _drawn(_ALNUM, 24) + "." + _drawn(_ALNUM, 6) + "." + _drawn(_URLSAFE, 38), "client.run('{}')"
    ),
    "Discord webhook": _Plant(_drawn(_URLSAFE, 68), "https://discord" + ".com/api/webhooks/234567890123456789/{}"),
    "HashiCorp Vault token": _Plant("hv" + "s." + _drawn(_URLSAFE, 95), "vault login {}"),
    "Terraform Cloud token": _Plant(
        _drawn(_ALNUM, 14) + ".atlas" + "v1." + _drawn(_ALNUM, 67), "terraform login wrote {} there"
    ),
    "DigitalOcean token": _Plant("do" + "p_v1_" + _drawn(_HEX, 64), "doctl auth init -t {}"),
    "Heroku key": _Plant("HR" + "KU-AA" + _drawn(_URLSAFE, 58), "heroku authorizations: {}"),
    "Heroku legacy key": _Plant(_UUID[::-1], "HEROKU_API_KEY={}"),
    "Shopify token": _Plant("sh" + "pat_" + _drawn(_HEX, 32), "X-Shopify-Access-Token: {}"),
    "Square token": _Plant("EA" + "AA" + _drawn(_URLSAFE, 60), "square.Client('{}')"),
    "Square OAuth secret": _Plant("sq" + "0csp-" + _drawn(_URLSAFE, 43), "square: {}"),
    "Databricks token": _Plant("da" + "pi" + _drawn(_HEX, 32), "databricks configure {}"),
    "Hugging Face token": _Plant("h" + "f_" + _drawn(string.ascii_letters, 34), 'login("{}")'),
    "Cloudflare token": _Plant(_drawn(_URLSAFE, 40), "CLOUDFLARE_API_TOKEN='{}' wrangler deploy"),
    "Cloudflare origin key": _Plant("v1" + ".0-" + _drawn(_HEX, 24) + "-" + _drawn(_HEX, 146), "origin ca {}"),
    "Grafana token": _Plant("gl" + "sa_" + _drawn(_ALNUM, 32) + "_" + _drawn(_HEX, 8), "grafana with {}"),
    "New Relic key": _Plant("NR" + "AK-" + _drawn(_UPPER, 27), "newrelic {}"),
    "Linear key": _Plant("li" + "n_api_" + _drawn(_ALNUM, 40), "linear {}"),
    "Notion token": _Plant("nt" + "n_" + _drawn(_ALNUM, 46), "notion {}"),
    "Postman key": _Plant("PM" + "AK-" + _drawn(_HEX, 24) + "-" + _drawn(_HEX, 34), "postman {}"),
    "Atlassian token": _Plant("AT" + "ATT3xFfGF0" + _drawn(_URLSAFE, 180), "acli jira {}"),
    "Sentry token": _Plant(
        "sn" + "trys_" + _json_base64('{"iat":1,"url":"https://s.example"}') + "_" + _drawn(_BASE64, 43),
        "sentry-cli {}",
    ),
    "Docker Hub token": _Plant("dc" + "kr_pat_" + _drawn(_URLSAFE, 27), "docker login -u me -p {}"),
    "Doppler token": _Plant("dp" + ".st.dev." + _drawn(_ALNUM, 40), "doppler {}"),
    "PlanetScale password": _Plant("ps" + "cale_pw_" + _drawn(_URLSAFE, 43), "pscale {}"),
    "Supabase token": _Plant("sb" + "p_" + _drawn(_HEX, 40), "supabase {}"),
    "Figma token": _Plant("fi" + "gd_" + _drawn(_URLSAFE, 40), "figma {}"),
    "JWT": _Plant(_JWT, "the cookie was {} then"),
    "bearer header": _Plant(_drawn(_ALNUM, 32), "curl -H 'Authorization: Bearer {}' localhost"),
    "basic header": _Plant(base64.b64encode(b"ada:" + _drawn(_ALNUM, 14).encode()).decode(), "Authorization: Basic {}"),
    "cookie": _Plant(_drawn(_ALNUM, 32), "Set-Cookie: sessionid={}; Path=/; HttpOnly"),
    "password in a URL": _Plant(_drawn(_ALNUM, 12), "git push https://ada:{}@git.example.com/shop.git"),
    "token as the user of a URL": _Plant(_drawn(_ALNUM, 40), "git remote add o https://{}@git.example.com/shop.git"),
    "token in a query": _Plant(_drawn(_ALNUM, 24), "GET /v1/feed?page=2&access_token={}&n=1"),
    "PostgreSQL URL": _Plant(_drawn(_ALNUM, 10) + "%21", "DATABASE_URL=postgres://shop:{}@db.example.com:5432/shop"),
    "MongoDB URL": _Plant(_drawn(_ALNUM, 14), "mongodb+srv://shop:{}@cluster0.example.net/?retryWrites=true"),
    "Redis URL without a user": _Plant(_drawn(_ALNUM, 16), "redis://:{}@cache.example.com:6379/0"),
    "connection string": _Plant("pW9" + "!kd#42x", "Server=db;Database=shop;User Id=sa;Password={};Encrypt=true"),
    "password in code": _Plant("hunter" + "2!kR", 'DB_PASSWORD = "{}"'),
    "api_key in YAML": _Plant(_drawn(_LOWER, 32), "api_key: {}"),
    "client secret in JSON": _Plant(_drawn(_ALNUM, 30), '{{"clientSecret": "{}", "scope": "all"}}'),
    "password on a command line": _Plant("tr0ub" + "4dor&3", "mysqldump --password={} shop"),
    "password in an environment file": _Plant("c0rrect" + "-h0rse", "SMTP_PASS={}"),
    "RSA private key": _Plant(_pem("RSA", 600), "{}"),
    "EC private key": _Plant(_pem("EC", 120), "key:\n{}\nend"),
    "encrypted private key": _Plant(_pem("ENCRYPTED", 600), "{}"),
    "SSH private key": _Plant(_pem("OPENSSH", 300), "$ cat ~/.ssh/id_ed25519\n{}\n$"),
    "PGP private key": _Plant(_pem("PGP", 600).replace("KEY-----", "KEY BLOCK-----"), "{}"),
    "PuTTY private key": _Plant(
        "Private-Lines: 2\n" + _base64_of(48) + "\n" + _base64_of(24) + "\nPrivate-MAC: " + _drawn(_HEX, 40),
        "PuTTY-User-Key-File-3: ssh-ed25519\nComment: a\n{}",
    ),
    "age key": _Plant(
        "AGE-SECRET" + "-KEY-1" + "".join(_DICE.choice("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L") for _ in range(58)),
        "# created: today\n{}",
    ),
    "minisign key": _Plant(
        "RWRT" + "Y0Iy" + _base64_of(150)[8:], "untrusted comment: minisign encrypted secret key\n{}"
    ),
    "netrc": _Plant(_drawn(_ALNUM, 14), "machine api.example.com login ada password {}"),
    "docker config auth": _Plant(
        base64.b64encode(b"ada:" + _drawn(_ALNUM, 20).encode()).decode(),
        '{{"auths": {{"registry.example": {{"auth": "{}"}}}}}}',
    ),
    "pgpass": _Plant(_drawn(_ALNUM, 14), "PGPASSWORD={} psql -h localhost"),
    "Kubernetes client key": _Plant(_base64_of(300), "    client-key-data: {}"),
}

PLANTED: dict[str, str] = {kind: plant.value for kind, plant in _PLANTS.items()}
"""The secrets, by what they are: exactly what has to vanish, nothing around it."""


def planted_lines() -> list[str]:
    """Each secret in a line as a transcript would have it (a key of many lines in many), in the order of PLANTED."""
    return [plant.line.format(plant.value) for plant in _PLANTS.values()]


def planted_in(text: str) -> list[str]:
    """Kinds of which the value is in the text; of a value of many lines, also when one line of its body is."""
    return [kind for kind, value in PLANTED.items() if any(part in text for part in _telling(value))]


def _telling(value: str) -> list[str]:
    lines = value.replace("\\n", "\n").split("\n")
    return [value, *(line for line in lines if len(lines) > 1 and len(line) > 20 and " " not in line)]
