//! What is found, and what is said where nothing is.

use super::*;
use crate::{cli::UNKNOWN, client::ClientError, data_dir::Running};

fn announced(url: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let running = Running {
        pid: 1,
        url: url.into(),
        started_at: "2026-11-29T13:00:00.000Z".into(),
    };
    let dir = DataDir::new(root.path());
    dir.announce(&running).unwrap();
    // Somebody listens there: what is left of a service that was killed is not believed.
    let socket = std::os::unix::net::UnixListener::bind(dir.admin_socket()).unwrap();
    std::mem::forget(socket);
    fs::write(
        root.path().join("owner.token"),
        format!("cst_{}\n", "A".repeat(43)),
    )
    .unwrap();
    root
}

fn account(root: &Path, name: &str) {
    let dir = root.join("accounts").join(name);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("log.vkey"), "x").unwrap();
}

fn at(dir: Option<&Path>, url: Option<&str>) -> Place {
    let site = Site {
        dir: DirArg {
            dir: dir.map(Into::into),
        },
        url: url.map(Into::into),
        ..Site::default()
    };
    Place {
        site,
        account: None,
    }
}

#[tokio::test]
async fn the_directory_says_where_who_and_with_what() {
    let root = announced("http://127.0.0.1:1");
    account(root.path(), "dev");
    let service = at(Some(root.path()), None).service().await.unwrap();
    assert_eq!(
        (service.client.url(), service.client.account()),
        ("http://127.0.0.1:1", "dev")
    );
    assert!(service.client.has_token());
    account(root.path(), "other");
    let error = at(Some(root.path()), None).service().await.err().unwrap();
    assert!(
        error
            .to_string()
            .contains("several accounts, dev and other"),
        "{error}"
    );
}

#[tokio::test]
async fn nothing_found_names_what_was_looked_for() {
    let root = tempfile::tempdir().unwrap();
    let error = at(Some(root.path()), None).service().await.err().unwrap();
    for word in ["--url", "COUNTERSIGN_URL", "serve.json", "countersign up"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    assert_eq!(super::super::exit_code(&error), super::super::UNUSABLE);
}

#[test]
fn a_token_goes_to_its_own_service_only() {
    let root = announced("http://127.0.0.1:1");
    let dir = DataDir::new(root.path());
    let sends = |place: &Place, url: &str, is_of_dir| {
        place
            .site
            .find_token(&dir, url, is_of_dir)
            .unwrap()
            .is_some()
    };
    assert!(sends(&at(None, None), "https://example.com", true));
    assert!(sends(&at(None, None), "http://127.0.0.1:2", false));
    // A directory that is named, perhaps by COUNTERSIGN_DIR long ago, is no word about another URL.
    assert!(!sends(
        &at(Some(root.path()), None),
        "https://example.com",
        false
    ));
    assert!(!sends(&at(None, None), "https://example.com", false));
    let mut place = at(None, None);
    place.site.token = Some("cst_x".into());
    assert!(
        place
            .site
            .find_token(&dir, "http://127.0.0.1", true)
            .is_err()
    );
}

#[test]
fn a_token_as_an_argument_is_seen_at_any_depth() {
    use clap::CommandFactory as _;
    let seen = |args: &[&str]| {
        token_is_an_argument(
            &super::super::Cli::command()
                .try_get_matches_from(args)
                .unwrap(),
        )
    };
    assert!(seen(&["countersign", "identity", "list", "--token", "x"]));
    assert!(!seen(&[
        "countersign",
        "identity",
        "list",
        "--token-file",
        "x"
    ]));
    assert!(!seen(&["countersign", "key", "show", "x"]));
}

#[test]
fn a_silent_service_is_explained() {
    let root = announced("http://127.0.0.1:1");
    let gone = || ClientError::Unreachable {
        url: "http://127.0.0.1:1".into(),
        why: "refused".into(),
    };
    let hint = explain(gone(), Some(&DataDir::new(root.path())));
    assert!(hint.to_string().contains("process 1"), "{hint}");
    assert_eq!(super::super::exit_code(&hint), UNKNOWN);
    assert!(
        explain(gone(), None)
            .to_string()
            .contains("Is the URL right")
    );
}
