//! Where settings come from, and what is wrong with them.

use super::*;

fn looked(text: &str, variables: &[(&str, &str)]) -> Result<Layers, Vec<String>> {
    let variables = variables.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    let faults = |faults: Vec<Fault>| faults.iter().map(Fault::to_string).collect();
    read("config.toml", text, variables).map_err(faults)
}

#[test]
fn every_fault_is_named_with_its_place_and_its_key() {
    let text = "lisen = 1\n\n[limits]\nrequests = 0\nheader_bytes = \"many\"\n\n[nothing]\n\n[tls]\ncert = \"a\"\n";
    let variables = [("COUNTERSIGN_STORE__CACHE_BYTES", "-1"), ("PATH", "/bin")];
    let found = looked(text, &variables).unwrap_err();
    let begins: Vec<String> = found
        .iter()
        .map(|fault| fault.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": "))
        .collect();
    assert_eq!(
        begins,
        [
            "config.toml:5: limits.header_bytes",
            "config.toml:1: lisen",
            "config.toml:7: nothing",
            "COUNTERSIGN_STORE__CACHE_BYTES: store.cache_bytes",
            "config.toml:10: tls",
        ],
        "{found:?}"
    );
    // What only shows once all are read.
    let found = looked("[limits]\nrequests = 0\nconnections = 0\n", &[]).unwrap_err();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].starts_with("config.toml:2: limits.requests: "));
    let found = looked("a = \n", &[]).unwrap_err();
    assert!(found[0].starts_with("config.toml:1: "), "{found:?}");
}

#[test]
fn a_variable_is_to_blame_for_what_it_says_alone() {
    // Each half of a pair by itself is no configuration, and both together are.
    let pair = [
        ("COUNTERSIGN_TLS__CERT", "a.pem"),
        ("COUNTERSIGN_TLS__KEY", "b.pem"),
    ];
    let tls = looked("", &pair).unwrap().config.tls.unwrap();
    assert!(tls.key.ends_with("b.pem"));
    let half = looked("", &pair[..1]).unwrap_err();
    assert!(
        half[0].starts_with("COUNTERSIGN_TLS__CERT: tls: "),
        "{half:?}"
    );
    let deep = looked("", &[("COUNTERSIGN_LIMITS__REQUESTS__X", "1")]).unwrap_err();
    assert!(deep[0].contains("no table"), "{deep:?}");
    let layers = looked(
        "[metrics]\nlisten = \"127.0.0.1:1\"\n",
        &[("COUNTERSIGN_LISTEN", "127.0.0.1:1")],
    );
    let found = layers.unwrap_err();
    assert!(
        found[0].starts_with("config.toml:2: metrics.listen: "),
        "{found:?}"
    );
}

#[test]
fn every_setting_says_where_it_comes_from() {
    let text = "public_url = \"https://log.example.com\"\n[limits]\nrequests = 7\nwatchers = 8\n";
    let variables = [("COUNTERSIGN_LIMITS__REQUESTS", "9")];
    let layers = looked(text, &variables).unwrap();
    let settings = layers.settings();
    let shown = |key: &str| {
        let found = settings.iter().find(|setting| setting.key == key);
        let found = found.unwrap_or_else(|| panic!("{key}"));
        let value = found.value.as_ref().map(ToString::to_string);
        (value.unwrap_or_default(), found.source.to_string())
    };
    let pair = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(
        shown("limits.requests"),
        pair("9", "COUNTERSIGN_LIMITS__REQUESTS")
    );
    assert_eq!(shown("limits.watchers"), pair("8", "config.toml:4"));
    assert_eq!(
        shown("public_url"),
        pair("\"https://log.example.com\"", "config.toml:1")
    );
    assert_eq!(shown("limits.connections"), pair("4096", "default"));
    for absent in [
        "tls.cert",
        "tls.key",
        "metrics.listen",
        "mcp.authorization_server",
    ] {
        assert_eq!(shown(absent), pair("", "default"));
    }
    // Every key of the reference, and no other.
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/reference/configuration.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(settings.len(), rows);
}

#[test]
fn what_another_start_would_change_is_named() {
    let now = looked("[limits]\nrequests = 7\n", &[]).unwrap().config;
    let later = looked(
        "public_url = \"https://a.example\"\n[limits]\nwatchers = 7\n",
        &[],
    );
    let later = later.unwrap().config;
    assert_eq!(
        now.differs(&later),
        ["limits.requests", "limits.watchers", "public_url"]
    );
    assert_eq!(now.differs(&now), [""; 0]);
}
