//! `GET /`: a plain page that says what this is and shows the newest heads. No script, nothing from elsewhere.

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{Html, IntoResponse, Response},
};

use countersign_verifier::tile::bundles;

use super::Shared;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#222}\
pre{background:#f4f4f4;padding:.8rem;overflow-x:auto}code{background:#f4f4f4}h1{font-size:1.4rem}h2{font-size:1.1rem}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre,code{background:#262626}a{color:#8ab4f8}}";

pub(super) async fn index(State(app): State<Shared>) -> Response {
    let mut logs = String::new();
    for account in app.accounts.values().filter(|a| a.public) {
        let published = account.reader().published();
        let name = escape(&account.name);
        logs.push_str(&format!(
            "<h2>{origin}</h2><p>{size} leaves. Key: <code>{vkey}</code></p><pre>{note}</pre>\
             <p><a href=\"/log/{name}/checkpoint\">checkpoint</a> · <a href=\"/log/{name}/{entries}\">first entries</a> · \
             <a href=\"/log/{name}/policy\">policy</a> · <a href=\"/log/{name}/keys\">keys</a> · \
             <a href=\"/log/{name}/evidence/0\">evidence of leaf 0</a></p>",
            origin = escape(&account.origin),
            size = published.head.size,
            // A bundle that is not full yet has its width in its name.
            entries = bundles(published.head.size).next().map_or(String::new(), |first| first.path()),
            vkey = escape(&account.vkey),
            note = escape(&published.note),
        ));
    }
    if logs.is_empty() {
        logs.push_str("<p>No public log is kept here.</p>");
    }
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Countersign</title><style>{STYLE}</style><h1>Countersign</h1>\
         <p>A transparency log for signed receipts. Every write is a leaf of a Merkle tree; the answer to a write names its leaf, \
         and the evidence of a leaf can be checked years later, without a network and without trusting whoever runs this.</p>\
         {logs}<h2>Use it</h2><pre>countersign sign --type application/vnd.in-toto+json FILE | countersign submit - --out evidence\n\
         countersign verify evidence/*.json --policy POLICY</pre>\
         <p>Any C2SP tlog-tiles client can read the logs. <a href=\"/health\">How the service is</a>. \
         The API: <a href=\"/openapi.json\">/openapi.json</a>; for clients of the Model Context Protocol: <code>/mcp</code>.</p></html>"
    );
    let mut answer = Html(body).into_response();
    let policy = HeaderValue::from_static(
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    );
    answer
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, policy);
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
