"""An authorization server that says yes: metadata, registration, authorization codes with PKCE, access tokens of RS256. Prints its URL.

For tests: whoever asks is `agent-7`, and nobody is asked whether that is right.
"""

import base64
import hashlib
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CODES = {}


class Server(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body, status=200, **headers):
        body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        at = urlsplit(self.path)
        if at.path == "/.well-known/oauth-authorization-server":
            self.answer({
                "issuer": URL,
                "authorization_endpoint": f"{URL}/authorize",
                "token_endpoint": f"{URL}/token",
                "registration_endpoint": f"{URL}/register",
                "jwks_uri": f"{URL}/keys",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "scopes_supported": ["countersign"],
            })
        elif at.path == "/keys":
            key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
            self.answer({"keys": [{**key, "kid": "1", "use": "sig", "alg": "RS256"}]})
        elif at.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(at.query).items()}
            code = secrets.token_urlsafe()
            CODES[code] = asked
            back = urlencode({"code": code, "state": asked["state"]})
            self.answer({}, 302, location=f"{asked['redirect_uri']}?{back}")
        else:
            self.answer({}, 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/register":
            self.answer({**json.loads(body), "client_id": "example-client"}, 201)
            return
        asked = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        granted = CODES.pop(asked["code"])
        digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == granted["code_challenge"]
        assert asked["resource"] == granted["resource"], asked
        now = int(time.time())
        claims = {"iss": URL, "sub": "agent-7", "aud": asked["resource"], "iat": now, "exp": now + 300, "scope": granted["scope"]}
        token = jwt.encode(claims, KEY, algorithm="RS256", headers={"kid": "1", "typ": "at+jwt"})
        self.answer({"access_token": token, "token_type": "Bearer", "expires_in": 300, "scope": granted["scope"]})


SERVER = ThreadingHTTPServer(("127.0.0.1", 0), Server)
URL = f"http://127.0.0.1:{SERVER.server_port}"
print(URL, flush=True)
SERVER.serve_forever()
