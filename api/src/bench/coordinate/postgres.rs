//! The peer: a PostgreSQL of this run's own, and `pgbench`, its own load generator, on the same work unsigned.
//!
//! Nothing of it is built in: programs that are installed are started. They are left out where there are none.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};

use super::work::{Kind, Work};
use crate::bench::{
    servers::{Process, Scratch},
    stats::Latencies,
    watch,
};

const SCHEMA: &str = include_str!("postgres.sql");
/// Durable as installed (fsync, synchronous_commit and full_page_writes are on), with memory as for a small server and checkpoints
/// rarer than the usual five minutes.
const SETTINGS: &[&str] = &[
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "shared_buffers=512MB",
    "max_wal_size=4GB",
    "checkpoint_timeout=15min",
    "jit=off",
    "max_connections=100",
    "listen_addresses=127.0.0.1",
];
/// How long the server may take to accept connections.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// pgbench's time begins before its connections are open; a process is started for each.
const CONNECTING: Duration = Duration::from_secs(3);
const DATABASE: &str = "postgres";
const USER: &str = "bench";

/// Which settings it runs with, for a sentence.
#[must_use]
pub fn settings() -> String {
    SETTINGS.join(", ")
}

/// The programs of an installation.
#[derive(Clone, Debug)]
pub struct Programs(PathBuf);

impl Programs {
    /// Those in `folder`, or where PATH or Debian has them; `None` where some are missing.
    #[must_use]
    pub fn find(folder: Option<&Path>) -> Option<Programs> {
        let path = crate::config::search_path();
        let named = |dir: PathBuf| {
            // A link to one of them leads to all.
            let initdb = fs::canonicalize(dir.join("initdb")).ok()?;
            Some(initdb.parent()?.to_owned())
        };
        let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let installed = installed
            .flatten()
            .map(|version| version.path().join("bin"));
        let mut folders: Vec<PathBuf> = match folder {
            Some(folder) => vec![folder.to_owned()],
            None => std::env::split_paths(&path).chain(installed).collect(),
        };
        folders.retain(|dir| dir.is_absolute());
        let all = |dir: &PathBuf| {
            let programs = ["initdb", "postgres", "psql", "pgbench"];
            programs.iter().all(|program| dir.join(program).is_file())
        };
        folders
            .into_iter()
            .filter_map(named)
            .find(all)
            .map(Programs)
    }

    fn command(&self, program: &str) -> Command {
        Command::new(self.0.join(program))
    }

    /// What it calls itself, as `PostgreSQL 15.18`.
    ///
    /// # Errors
    /// It does not start.
    pub fn version(&self) -> anyhow::Result<String> {
        let said = ran(self.command("postgres").arg("--version"))?;
        let version = said.split_whitespace().nth(2).unwrap_or("?");
        Ok(format!("PostgreSQL {version}"))
    }
}

/// A server, on a directory that is removed with the scratch folder.
#[derive(Debug)]
pub struct Postgres {
    programs: Programs,
    port: u16,
    process: Process,
    folder: PathBuf,
    runs: u32,
}

/// What pgbench found.
#[derive(Debug)]
pub struct Measured {
    /// Units a second of the window.
    pub per_second: f64,
    /// One a unit of the window.
    pub latencies: Latencies,
    /// Processor time of the server, microseconds a unit.
    pub server_us_each: f64,
}

impl Postgres {
    /// Makes a cluster, starts it, and makes tables of as many items as `work` has.
    ///
    /// # Errors
    /// A program that fails.
    pub fn start(programs: &Programs, scratch: &Scratch, items: usize) -> anyhow::Result<Postgres> {
        let folder = scratch.path().join("postgres");
        fs::create_dir(&folder)?;
        let account = account()?;
        if let Some((uid, gid)) = account {
            chown(&folder, Some(uid), Some(gid)).context("chown")?;
        }
        let own = |program: &str| {
            let mut command = programs.command(program);
            command.current_dir(&folder);
            if let Some((uid, gid)) = account {
                command.uid(uid).gid(gid);
            }
            command
        };
        let data = folder.join("data");
        ran(own("initdb")
            .args(["--no-locale", "-E", "UTF8", "-A", "trust", "-U", USER, "-D"])
            .arg(&data))?;
        // Free a moment ago: PostgreSQL takes no port 0.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let mut server = own("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(&folder);
        server.args(["-p", &port.to_string()]);
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        let process = Process::quiet(server, &scratch.path().join("postgres.stderr"))?;
        let postgres = Postgres {
            programs: programs.clone(),
            port,
            process,
            folder: scratch.path().to_owned(),
            runs: 0,
        };
        let asked = watch::now();
        while let Err(error) = postgres.sql("select 1") {
            ensure!(asked.elapsed() < READY_WITHIN, "PostgreSQL: {error:#}");
            thread::sleep(Duration::from_millis(100));
        }
        postgres.sql(SCHEMA)?;
        postgres.sql(&format!(
            "insert into item select 'item-' || lpad(n::text, 6, '0'), jsonb_build_object('title', 'Item ' || n || ' of the bench, with a title of some length',
                 'description', left(md5(n::text) || md5((n + 1)::text) || md5((n + 2)::text) || md5((n + 3)::text) || md5((n + 4)::text) || md5((n + 5)::text) || md5((n + 6)::text), 200),
                 'priority', n % 5, 'tags', jsonb_build_array('area-' || n % 50, 'size-' || n % 3), 'workstream', 'stream-' || n % 20), 1, now()
             from generate_series(0, {items} - 1) n; analyze; checkpoint;"
        ))?;
        Ok(postgres)
    }

    fn client(&self, program: &str) -> Command {
        let mut command = self.programs.command(program);
        command
            .args(["-h", "127.0.0.1", "-U", USER, "-p"])
            .arg(self.port.to_string());
        command
    }

    fn sql(&self, text: &str) -> anyhow::Result<String> {
        ran(self
            .client("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", text, DATABASE]))
    }

    /// Has pgbench do `work` over as many connections as it has agents, and counts what was done in the window after the warm-up.
    ///
    /// # Errors
    /// A program that fails, or work that was refused.
    pub fn measure(
        &mut self,
        work: Work,
        warm_up: Duration,
        window: Duration,
    ) -> anyhow::Result<Measured> {
        self.runs += 1;
        let at = |name: &str| self.folder.join(format!("pgbench-{}.{name}", self.runs));
        let (script, log) = (at("sql"), at("log"));
        fs::write(
            &script,
            text(work.kind).context("the peer has no such work")?,
        )?;
        let seconds = (CONNECTING + warm_up + window).as_secs_f64().ceil();
        let clients = work.agents.to_string();
        let before = self.cpu();
        ran(self
            .client("pgbench")
            .args(["-n", "-M", "prepared", "-j", "1", "-c", &clients, "-T"])
            .arg(seconds.to_string())
            .args(["-D", &format!("items={}", work.items.max(1))])
            .args([
                "-D",
                &format!("share={}", (work.items / work.agents).max(1)),
            ])
            .args(["-D", &format!("clients={clients}")])
            .arg("-f")
            .arg(&script)
            .arg("-l")
            .arg("--log-prefix")
            .arg(&log)
            .arg(DATABASE))?;
        let cpu = self.cpu().zip(before).map(|(after, before)| after - before);
        let refused =
            self.sql("select count(*) as refused from audit where outcome <> 'applied'")?;
        ensure!(
            refused.split_whitespace().any(|word| word == "0"),
            "refused: {refused}"
        );
        let units = logged(&log)?;
        let mut measured = read(&units, warm_up, window)?;
        measured.server_us_each =
            cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64() * 1e6 / units.len() as f64);
        Ok(measured)
    }

    /// Processor time that it has used.
    #[must_use]
    pub fn cpu(&self) -> Option<Duration> {
        self.process.cpu_with_ended()
    }
}

/// A unit of work in pgbench's language: statements, each of which is a transaction.
fn text(kind: Kind) -> Option<String> {
    let own = "\\set n random(0, :share - 1) * :clients + :client_id\n";
    let who = "'agent-' || :client_id";
    Some(match kind {
        Kind::Leases => format!(
            "{own}select acquire('item-' || :n, {who}, 600) as fence \\gset\nselect release('item-' || :n, {who}, :fence);\n"
        ),
        Kind::Checkins => format!(
            "select checkin({who}, 'agent', '{{\"name\":\"bench\",\"version\":\"1\"}}', 86400) as session \\gset\nselect checkout({who}, :session, 'no_action');\n"
        ),
        Kind::Upserts(_) => {
            let description = crate::bench::material::letters(7, 190);
            format!(
                "\\set n random(0, :items - 1)\n\\set salt random(1000000000, 2000000000)\nselect upsert({who}, 'item-' || lpad(:n::text, 6, '0'), jsonb_build_object('description', '{description}' || :salt, 'priority', mod(:salt, 5)));\n"
            )
        }
        Kind::Fill | Kind::Sit | Kind::Hold => return None,
    })
}

/// When a unit ended, in microseconds, and how long it took.
type Unit = (u64, u64);

/// What pgbench has logged: client, number, microseconds that it took, script, and when it ended in seconds and microseconds.
fn logged(prefix: &Path) -> anyhow::Result<Vec<Unit>> {
    let folder = prefix.parent().context("a prefix without a folder")?;
    let prefix = prefix
        .file_name()
        .and_then(|name| name.to_str())
        .context("a prefix")?;
    let mut units = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name
            .to_str()
            .is_some_and(|name| name.starts_with(&format!("{prefix}.")))
        {
            continue;
        }
        for line in fs::read_to_string(entry.path())?.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
            let (Some(took), Some(s), Some(us)) = (number(2), number(4), number(5)) else {
                bail!("a line of pgbench's log: {line}");
            };
            units.push((s * 1_000_000 + us, took));
        }
        fs::remove_file(entry.path())?;
    }
    Ok(units)
}

/// Counts the units that ended in the window.
fn read(units: &[Unit], warm_up: Duration, window: Duration) -> anyhow::Result<Measured> {
    let micros = |length: Duration| u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    let began = units.iter().map(|(ended, took)| ended - took).min();
    let from = began.context("pgbench did nothing")? + micros(warm_up);
    let last = units.iter().map(|(ended, _)| *ended).max();
    // Where connecting took longer than was allowed for, the window is shorter.
    let until = last.unwrap_or(from).clamp(from + 1, from + micros(window));
    let within = from..until;
    let mut latencies = Latencies::default();
    for (_, took) in units.iter().filter(|(ended, _)| within.contains(ended)) {
        latencies.add(Duration::from_micros(*took));
    }
    Ok(Measured {
        per_second: latencies.len() as f64 / Duration::from_micros(until - from).as_secs_f64(),
        latencies,
        server_us_each: f64::NAN,
    })
}

/// Whom PostgreSQL runs as where this process is root, which it refuses to be.
fn account() -> anyhow::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse::<u32>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    let found = find("postgres").or_else(|| find("nobody"));
    Ok(Some(found.context(
        "PostgreSQL does not run as root, and neither `postgres` nor `nobody` is a user here",
    )?))
}

fn ran(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| program.clone())?;
    ensure!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_in_the_window_counts() {
        let second = Duration::from_secs(1);
        let units = [
            (1_500_000, 500_000), // began first, at 1.0 s
            (1_999_999, 10),      // in the warm-up
            (2_000_000, 3_000),
            (2_999_999, 1_000),
            (3_000_000, 9_000), // after the window
        ];
        let measured = read(&units, second, second).expect("units");
        assert_eq!(measured.per_second, 2.0);
        assert_eq!(measured.latencies.percentile_ms(50), 1.0);
        assert_eq!(measured.latencies.percentile_ms(99), 3.0);
        let early = read(&units, second, 3 * second).expect("units");
        assert_eq!(
            early.per_second, 2.0,
            "the last ended a second after the warm-up"
        );
        assert!(read(&[], second, second).is_err());
    }

    #[test]
    fn every_file_of_a_run_is_read_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(
            at("pgbench-1.log.77"),
            "0 1 250 0 1700000000 5\n3 1 1250 0 1700000001 6\n",
        )
        .expect("written");
        fs::write(at("pgbench-10.log.78"), "0 1 1 0 1 1\n").expect("written");
        let units = logged(&at("pgbench-1.log")).expect("read");
        assert_eq!(
            units,
            [(1_700_000_000_000_005, 250), (1_700_000_001_000_006, 1_250)]
        );
        assert!(!at("pgbench-1.log.77").exists() && at("pgbench-10.log.78").exists());
        fs::write(at("pgbench-2.log.1"), "client 7 aborted\n").expect("written");
        assert!(logged(&at("pgbench-2.log")).is_err());
    }

    #[test]
    fn a_folder_without_them_has_no_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Programs::find(Some(folder.path())).is_none());
        for kind in [Kind::Leases, Kind::Checkins] {
            assert!(text(kind).is_some_and(|text| text.matches("select").count() == 2));
        }
    }
}
