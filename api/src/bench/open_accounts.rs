//! Many accounts in one service: what those cost that are open, and what it costs to open another.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use countersign_log::{SystemClocks, store::rocks::Shared};
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    report::{Report, Side, say},
    rig::{Common, Rig},
    scale::mib,
    servers::Server,
    watch,
    wire::Connection,
};
use crate::{
    data_dir::DataDir,
    init::{self, Another},
};

/// What is promised of the service with so many open, each of them written to: MiB.
const MEMORY_MIB_MAX: f64 = 1_024.0;
/// How long it may take until each account has been looked through.
const LOOKED_THROUGH_WITHIN: Duration = Duration::from_secs(600);
/// Accounts that are opened in the place of others in a round.
const TURNS: usize = 100;

/// What `bench open-accounts` takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// As every bench; the peer is not asked.
    pub common: Common,
    /// Accounts of the directory.
    pub accounts: usize,
    /// Open at a time.
    pub open: usize,
}

/// Makes the accounts, and serves them with one open at a time and with as many as asked for.
///
/// # Errors
/// A service that fails, or an account that does not answer.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let Options {
        common,
        accounts,
        open,
    } = options;
    ensure!(
        accounts >= open,
        "{accounts} accounts, and {open} of them open"
    );
    let common = Common {
        peer: None,
        ..common.clone()
    };
    let mut rig = Rig::start(&common)?;
    rig.ours.end();
    let begun = watch::now();
    make(&rig.dir(), *accounts)?;
    let made = begun.elapsed();
    let mut sides = Vec::new();
    for room in [1, *open] {
        let config = format!("[accounts]\nopen_max = {room}\nidle_s = 0\n");
        let file = DataDir::new(rig.dir()).config();
        fs::write(&file, config).with_context(|| file.display().to_string())?;
        let name = format!("{room} open");
        let mut rounds = Vec::new();
        for round in 1..=common.rounds {
            say(&format!("round {round} of {}: {name}", common.rounds));
            rounds.push(one(&mut rig, &common, *accounts, room)?);
        }
        sides.push(Side { name, rounds });
    }
    let mut report = Report {
        bench: "open-accounts",
        what: format!(
            "a directory of {accounts} accounts and the development account, served with one open at a time and with {open}; {}",
            common.words()
        ),
        settings: common.settings(json!({"accounts": accounts, "open": open})),
        figures: vec![
            "start s",
            "all looked through s",
            "memory MiB",
            "memory MiB, all open written to",
            "peak memory MiB",
            "write ms",
            "another opened, one closed ms",
        ],
        sides,
        ..Report::default()
    };
    report.promise(3, 1, MEMORY_MIB_MAX);
    report.compare(3, 1, 0, super::report::Want::Nothing);
    report.notes.push(format!(
        "{accounts} accounts were made in {:.1} s, {:.1} ms each",
        made.as_secs_f64(),
        made.as_secs_f64() * 1e3 / *accounts as f64
    ));
    rig.note_scratch(&mut report);
    Ok(report)
}

/// Makes them by the code that `account create` runs where no service does.
fn make(dir: &Path, accounts: usize) -> anyhow::Result<()> {
    let dir = DataDir::new(dir);
    let shared = Shared::new(8 << 20, 8 << 20);
    for number in 0..accounts {
        let plan = Another {
            name: name(number),
            origin: None,
            owner: None,
            public: false,
        };
        init::add(&dir, &plan, (&shared, Arc::new(SystemClocks)), |_| Ok(()))?;
        if number % 100 == 99 {
            say(&format!("{} of {accounts} accounts", number + 1));
        }
    }
    Ok(())
}

/// In order, and before the development account: a start opens the first ones.
fn name(number: usize) -> String {
    format!("a{number:06}")
}

/// A start, work, and an end; a value for each figure.
fn one(rig: &mut Rig, common: &Common, accounts: usize, room: usize) -> anyhow::Result<Vec<f64>> {
    let begun = watch::now();
    rig.start_again(common)?;
    let start = begun.elapsed();
    let token = DataDir::new(rig.dir()).owner_token();
    let token = fs::read_to_string(&token).with_context(|| token.display().to_string())?;
    let mut client = Client::new(&rig.ours, token.trim())?;
    client.await_looked_through()?;
    let looked = begun.elapsed();
    // Whoever is asked is opened, so that as many are open as may be.
    for number in 0..room {
        client.read(&name(number))?;
    }
    let at_rest = mib(rig.ours.memory())?;
    let begun = watch::now();
    for number in 0..room {
        client.write(&name(number))?;
    }
    let writes = begun.elapsed();
    let written = mib(rig.ours.memory())?;
    let others = room..accounts.min(room + TURNS);
    let (turns, begun) = (others.len(), watch::now());
    for number in others {
        client.read(&name(number))?;
    }
    let turned = begun.elapsed();
    let peak = mib(rig.ours.memory_peak())?;
    rig.ours.end();
    let each = |time: Duration, count: usize| time.as_secs_f64() * 1e3 / count as f64;
    Ok(vec![
        start.as_secs_f64(),
        looked.as_secs_f64(),
        at_rest,
        written,
        peak,
        each(writes, room),
        each(turned, turns),
    ])
}

/// Who asks one account after the other, with the owner's token.
struct Client {
    runtime: Runtime,
    connection: Connection,
    host: String,
    token: String,
}

impl Client {
    fn new(server: &Server, token: &str) -> anyhow::Result<Client> {
        Ok(Client {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            connection: Connection::new(server.door.address),
            host: server.door.address.to_string(),
            token: token.to_owned(),
        })
    }

    fn ask(&mut self, line: &str, token: &str, body: &str) -> anyhow::Result<(u16, String)> {
        let head = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        let exchange = self.connection.exchange(head.as_bytes(), body.as_bytes());
        let answer = self.runtime.block_on(exchange)?;
        Ok((
            answer.status,
            String::from_utf8_lossy(answer.body).into_owned(),
        ))
    }

    fn done(&mut self, line: &str, body: &str) -> anyhow::Result<()> {
        let token = self.token.clone();
        let (status, said) = self.ask(line, &token, body)?;
        ensure!(status == 200, "{line}: {status} {said}");
        Ok(())
    }

    fn read(&mut self, account: &str) -> anyhow::Result<()> {
        self.done(&format!("GET /log/{account}/checkpoint"), "")
    }

    fn write(&mut self, account: &str) -> anyhow::Result<()> {
        let line = format!("POST /v1/board_upsert?account={account}");
        self.done(&line, r#"{"item":{"id":"a","title":"of the bench"}}"#)
    }

    /// Until it can be said of a token of nobody that it is none: each account has been opened once by then.
    fn await_looked_through(&mut self) -> anyhow::Result<()> {
        let asked = watch::now();
        let nobodys = format!("cst_{}", "0".repeat(43));
        loop {
            match self.ask("POST /v1/board_list", &nobodys, "{}")? {
                (401, _) => return Ok(()),
                (503, said) => ensure!(asked.elapsed() < LOOKED_THROUGH_WITHIN, "{said}"),
                (status, said) => anyhow::bail!("{status} {said}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
