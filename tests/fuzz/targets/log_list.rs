//! Lists of logs: what is read is read again in its plain form.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::log_list::{HEADER, ListedLog, parse};
use libfuzzer_sys::fuzz_target;

fn print(logs: &[ListedLog]) -> String {
    let mut list = format!("{HEADER}\n");
    for log in logs {
        let ListedLog {
            key,
            origin,
            requests_per_day,
            contact,
        } = log;
        list +=
            &format!("vkey {key}\norigin {origin}\nqpd {requests_per_day}\ncontact {contact}\n");
    }
    list
}

fuzz_target!(
    init: seed([
        format!("# logs\n{HEADER}\n\nvkey {}\nqpd 86400\ncontact someone\n", FIXTURE.log),
        format!("{HEADER}\nvkey {}\norigin go.sum database tree\nqpd 1\ncontact a | b\n", FIXTURE.log),
    ]),
    |data: &[u8]| {
        if let Ok(logs) = parse(data) {
            assert_eq!(parse(print(&logs).as_bytes()).as_ref(), Ok(&logs));
        }
    }
);
