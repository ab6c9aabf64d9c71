//! Tokens against a server of the tests' own, with keys of its own.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::*;

const RESOURCE: &str = "https://log.example.com/mcp";
/// 2026-11-30, a Monday.
const WALL_MS: u64 = 1_796_000_000_000;

fn base64url(bytes: &[u8]) -> String {
    let text = countersign_verifier::base64::encode(bytes);
    text.trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_")
}

enum Pair {
    Ed(Box<Ed25519KeyPair>),
    P256(Box<EcdsaKeyPair>),
}

/// A key of the server's.
struct Own {
    kid: &'static str,
    pair: Pair,
}

impl Own {
    fn ed(kid: &'static str) -> Own {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).unwrap();
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        let pair = Pair::Ed(Box::new(pair));
        Own { kid, pair }
    }

    fn p256(kid: &'static str) -> Own {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let bytes = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(kind, bytes.as_ref(), &random).unwrap();
        let pair = Pair::P256(Box::new(pair));
        Own { kid, pair }
    }

    fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Ed(pair) => {
                let x = base64url(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "use": "sig", "alg": "EdDSA", "x": x})
            }
            Pair::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (base64url(&point[1..33]), base64url(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "x": x, "y": y})
            }
        }
    }

    fn alg(&self) -> &'static str {
        match self.pair {
            Pair::Ed(_) => "EdDSA",
            Pair::P256(_) => "ES256",
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = |value: &Value| base64url(value.to_string().as_bytes());
        let message = format!("{}.{}", text(header), text(claims));
        let signature = match &self.pair {
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            Pair::P256(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message.as_bytes());
                signed.unwrap().as_ref().to_vec()
            }
        };
        format!("{message}.{}", base64url(&signature))
    }

    fn token(&self, claims: &Value) -> String {
        let header = json!({"alg": self.alg(), "kid": self.kid, "typ": "at+jwt"});
        self.sign(&header, claims)
    }
}

/// A server, whatever it says.
#[derive(Default)]
struct Says {
    keys: Mutex<Vec<Value>>,
    issuer: Mutex<String>,
    asked: AtomicUsize,
    is_down: AtomicBool,
}

struct Server {
    says: Arc<Says>,
    url: String,
}

impl Server {
    async fn new(keys: &[&Own]) -> Server {
        let says = Arc::new(Says::default());
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = listener.await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        *says.issuer.lock().unwrap() = url.clone();
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(about))
            .route("/keys", get(published))
            .with_state(says.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let server = Server { says, url };
        server.publish(keys);
        server
    }

    fn publish(&self, keys: &[&Own]) {
        *self.says.keys.lock().unwrap() = keys.iter().map(|own| own.jwk()).collect();
    }

    fn issuer(&self) -> Issuer {
        self.issuer_with(Mcp::default())
    }

    fn issuer_with(&self, mcp: Mcp) -> Issuer {
        Issuer::of(&Mcp {
            authorization_server: Some(self.url.clone()),
            ..mcp
        })
        .unwrap()
    }

    /// What its tokens say, changed by `with`; `null` takes a claim away.
    fn claims(&self, with: Value) -> Value {
        let now = WALL_MS / 1_000;
        let mut claims = json!({
            "iss": self.url, "aud": RESOURCE, "sub": "agent-7", "iat": now, "exp": now + 300,
        });
        for (name, value) in with.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        claims
    }

    fn asked(&self) -> usize {
        self.says.asked.load(Relaxed)
    }
}

async fn about(State(says): State<Arc<Says>>) -> Response {
    says.asked.fetch_add(1, Relaxed);
    if says.is_down.load(Relaxed) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let issuer = says.issuer.lock().unwrap().clone();
    axum::Json(json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")})).into_response()
}

async fn published(State(says): State<Arc<Says>>) -> Response {
    axum::Json(json!({"keys": *says.keys.lock().unwrap()})).into_response()
}

fn at(boot_ms: u64) -> Now {
    Now {
        wall_ms: WALL_MS,
        boot_ms,
    }
}

fn why(result: Result<Hash, Denied>) -> &'static str {
    match result {
        Err(Denied::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_token_of_the_servers_for_this_resource_names_its_subject() {
    let (ed, p256) = (Own::ed("a"), Own::p256("b"));
    let server = Server::new(&[&ed, &p256]).await;
    let issuer = server.issuer();
    let known = subject_hash(&server.url, "sub", "agent-7");
    for own in [&ed, &p256] {
        for with in [
            json!({}),
            json!({"aud": ["https://other.example.com", RESOURCE]}),
            json!({"exp": WALL_MS / 1_000 - 59}),
            json!({"nbf": WALL_MS / 1_000 + 60}),
            json!({"exp": 1_796_000_300.75}),
        ] {
            let token = own.token(&server.claims(with.clone()));
            let subject = issuer.subject(&token, RESOURCE, at(0)).await;
            assert_eq!(subject, Ok(known), "{with}");
        }
        // A token that names no key is tried with each that fits.
        let token = own.sign(&json!({"alg": own.alg()}), &server.claims(json!({})));
        assert_eq!(issuer.subject(&token, RESOURCE, at(0)).await, Ok(known));
    }
    // Asked once for all of them.
    assert_eq!(server.asked(), 1);
    let mcp = Mcp {
        subject_claim: "client_id".into(),
        ..Mcp::default()
    };
    let token = ed.token(&server.claims(json!({"client_id": "robot"})));
    let subject = server
        .issuer_with(mcp)
        .subject(&token, RESOURCE, at(0))
        .await;
    assert_eq!(subject, Ok(subject_hash(&server.url, "client_id", "robot")));
}

#[tokio::test]
async fn a_token_for_something_else_is_not_taken() {
    let own = Own::ed("a");
    let server = Server::new(&[&own]).await;
    let issuer = server.issuer();
    let now = WALL_MS / 1_000;
    for (with, named) in [
        (json!({"iss": "https://evil.example.com"}), "`iss`"),
        (json!({"iss": null}), "`iss`"),
        (json!({"aud": "https://other.example.com/mcp"}), "`aud`"),
        (json!({"aud": "https://log.example.com"}), "`aud`"),
        (json!({"aud": null}), "`aud`"),
        (json!({"aud": []}), "`aud`"),
        (json!({"exp": null}), "`exp`"),
        (json!({"exp": now - 60}), "`exp`"),
        (json!({"exp": -1}), "`exp`"),
        (json!({"exp": "never"}), "claims cannot be read"),
        (json!({"nbf": now + 61}), "`nbf`"),
        (json!({"nbf": -5.5}), "`nbf`"),
        (json!({"sub": null}), "subject"),
        (json!({"sub": ""}), "subject"),
        (json!({"sub": 7}), "subject"),
        (json!({"sub": "a\nb"}), "subject"),
    ] {
        let token = own.token(&server.claims(with.clone()));
        let said = why(issuer.subject(&token, RESOURCE, at(0)).await);
        assert!(said.contains(named), "{with}: {said}");
    }
    for header in [
        json!({"alg": "EdDSA", "kid": "a", "typ": "dpop+jwt"}),
        json!({"alg": "EdDSA", "kid": "a", "crit": ["b64"]}),
        json!({"alg": "ES256", "kid": "a"}),
        json!({"alg": "RS256", "kid": "a"}),
    ] {
        let token = own.sign(&header, &server.claims(json!({})));
        why(issuer.subject(&token, RESOURCE, at(0)).await);
    }
}

#[tokio::test]
async fn what_is_not_signed_by_the_servers_private_key_is_not_taken() {
    let (own, stranger) = (Own::ed("a"), Own::ed("a"));
    let server = Server::new(&[&own]).await;
    let issuer = server.issuer();
    let claims = server.claims(json!({}));
    let text = |value: &Value| base64url(value.to_string().as_bytes());
    let public = own.jwk();
    // No signature; the public key taken for a shared secret; somebody else's key under the same name, or in the header itself.
    let unsigned = |alg: &str| format!("{}.{}.", text(&json!({"alg": alg})), text(&claims));
    let by_public_key = {
        let message = format!(
            "{}.{}",
            text(&json!({"alg": "HS256", "kid": "a"})),
            text(&claims)
        );
        let x = public["x"].as_str().unwrap().as_bytes();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, x);
        let tag = ring::hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", base64url(tag.as_ref()))
    };
    let own_header = json!({"alg": "EdDSA", "kid": "a", "jwk": stranger.jwk(), "jku": "http://127.0.0.1:9/keys"});
    let good = own.token(&claims);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let other = text(&server.claims(json!({"sub": "owner"})));
    for token in [
        unsigned("none"),
        unsigned("EdDSA"),
        by_public_key,
        stranger.token(&claims),
        stranger.sign(&own_header, &claims),
        format!("{}.{other}.{signature}", message.split('.').next().unwrap()),
        format!("{good}.x"),
        good[..good.len() - 2].to_owned(),
        String::new(),
        "cst".into(),
    ] {
        why(issuer.subject(&token, RESOURCE, at(0)).await);
    }
    assert!(issuer.subject(&good, RESOURCE, at(0)).await.is_ok());
    // A secret among the published keys signs nothing either.
    let shared = json!({"kty": "oct", "k": base64url(b"a secret that everybody can read"), "kid": "s", "alg": "HS256"});
    server.says.keys.lock().unwrap().push(shared);
    let message = format!(
        "{}.{}",
        text(&json!({"alg": "HS256", "kid": "s"})),
        text(&claims)
    );
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"a secret that everybody can read");
    let tag = ring::hmac::sign(&key, message.as_bytes());
    let token = format!("{message}.{}", base64url(tag.as_ref()));
    why(server.issuer().subject(&token, RESOURCE, at(0)).await);
}

#[tokio::test]
async fn keys_are_asked_for_again_within_bounds() {
    let (first, second) = (Own::ed("a"), Own::p256("b"));
    let server = Server::new(&[&first]).await;
    let issuer = server.issuer();
    let claims = server.claims(json!({}));
    let (one, two) = (first.token(&claims), second.token(&claims));
    assert!(issuer.subject(&one, RESOURCE, at(0)).await.is_ok());
    assert_eq!(server.asked(), 1);
    // A key that is not known has the server asked, and then not again for a while, whoever names what.
    server.publish(&[&second]);
    why(issuer.subject(&two, RESOURCE, at(AGAIN_MS - 1)).await);
    assert_eq!(server.asked(), 1);
    assert!(issuer.subject(&two, RESOURCE, at(AGAIN_MS)).await.is_ok());
    assert_eq!(server.asked(), 2);
    for n in 0..20 {
        let name = json!({"alg": "EdDSA", "kid": format!("k{n}")});
        let token = first.sign(&name, &claims);
        why(issuer.subject(&token, RESOURCE, at(AGAIN_MS + 1)).await);
    }
    assert_eq!(server.asked(), 2);
    // The key that was withdrawn is good for nothing more.
    why(issuer.subject(&one, RESOURCE, at(AGAIN_MS + 1)).await);
    // Without anything unknown they are asked for once they are old.
    let old = at(AGAIN_MS + FRESH_MS);
    assert!(issuer.subject(&two, RESOURCE, old).await.is_ok());
    assert_eq!(server.asked(), 3);
}

#[tokio::test]
async fn while_the_server_is_down_known_keys_are_good_for_a_day() {
    let (known, other) = (Own::ed("a"), Own::ed("b"));
    let server = Server::new(&[&known]).await;
    let issuer = server.issuer();
    let claims = server.claims(json!({}));
    let (good, unknown) = (known.token(&claims), other.token(&claims));
    assert!(issuer.subject(&good, RESOURCE, at(0)).await.is_ok());
    server.says.is_down.store(true, Relaxed);
    let later = at(FRESH_MS + AGAIN_MS);
    assert!(issuer.subject(&good, RESOURCE, later).await.is_ok());
    let unavailable = Err(Denied::Unavailable);
    assert_eq!(issuer.subject(&unknown, RESOURCE, later).await, unavailable);
    // One question for both, and for whatever comes within the pause.
    assert_eq!(server.asked(), 2);
    assert!(
        issuer
            .subject(&good, RESOURCE, at(KEPT_MS - 1))
            .await
            .is_ok()
    );
    assert_eq!(
        issuer
            .subject(&good, RESOURCE, at(KEPT_MS + AGAIN_MS))
            .await,
        unavailable
    );
    // One that was never reached.
    let fresh = server.issuer();
    assert_eq!(fresh.subject(&good, RESOURCE, at(0)).await, unavailable);
    server.says.is_down.store(false, Relaxed);
    assert!(fresh.subject(&good, RESOURCE, at(AGAIN_MS)).await.is_ok());
}

#[tokio::test]
async fn a_server_that_describes_itself_as_another_gives_no_keys() {
    let own = Own::ed("a");
    let server = Server::new(&[&own]).await;
    *server.says.issuer.lock().unwrap() = "https://login.example.com".into();
    let token = own.token(&server.claims(json!({})));
    let denied = server.issuer().subject(&token, RESOURCE, at(0)).await;
    assert_eq!(denied, Err(Denied::Unavailable));
}

#[tokio::test]
async fn a_token_that_lacks_a_scope_is_good_and_not_for_this() {
    let own = Own::ed("a");
    let server = Server::new(&[&own]).await;
    let issuer = server.issuer_with(Mcp {
        scopes: vec!["board".into(), "log".into()],
        ..Mcp::default()
    });
    for (with, lacks) in [
        (json!({}), Some("board")),
        (json!({"scope": "openid board"}), Some("log")),
        (json!({"scope": "logs board"}), Some("log")),
        (json!({"scope": "log openid board"}), None),
        (json!({"scp": ["board", "log"]}), None),
    ] {
        let token = own.token(&server.claims(with.clone()));
        let denied = issuer.subject(&token, RESOURCE, at(0)).await.err();
        assert_eq!(
            denied,
            lacks.map(|scope| Denied::Scope(scope.into())),
            "{with}"
        );
    }
}

/// RFC 7515 appendix A.2: RSA, which nothing here makes keys of.
#[test]
fn a_signature_of_the_specification_is_verified() {
    verify::install();
    let n = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
    let set = |alg: &str| json!({"keys": [{"kty": "RSA", "n": n, "e": "AQAB", "alg": alg}, {"kty": "new"}]});
    let signer = token::signer(token).unwrap();
    assert!(
        Keys::of(&set("RS256"))
            .unwrap()
            .open(token, &signer)
            .is_ok()
    );
    // A key that says what it is for is for nothing else.
    assert!(!Keys::of(&set("PS256")).unwrap().has(&signer));
    let changed = token.replace(".cC4h", ".cC4i");
    assert!(
        Keys::of(&set("RS256"))
            .unwrap()
            .open(&changed, &signer)
            .is_err()
    );
    assert!(Keys::of(&json!({"keys": [{"kty": "new"}]})).is_err());
}
