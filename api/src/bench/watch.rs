//! What time it is and what processors have done: the one file of the bench that asks.

use std::{fs, io, thread, time::Duration};

pub use std::time::Instant;

/// Ticks a second of `/proc/<pid>/stat`: Linux fixed the unit that it shows to programs, whatever the kernel's own.
const TICKS_A_SECOND: u64 = 100;

/// Now.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Processor time that the calling thread has used.
#[must_use]
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // OK because neither part of a thread's processor time is negative, and the second is below 10^9.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Processor time that process `pid` has used in all its threads, to the hundredth of a second.
///
/// # Errors
/// What the system says; `InvalidData` for an unknown form of `/proc/<pid>/stat`.
pub fn process_cpu(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks(&stat)
        .map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_A_SECOND))
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Processor time of the children of process `pid` that have ended and were waited for, and of theirs.
///
/// # Errors
/// As [`process_cpu`].
pub fn ended_children_cpu(pid: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    ticks_from(&stat, 13)
        .map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_A_SECOND))
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Bytes that process `pid` has had written towards a disk, in pages, since it began (proc(5) `io`, `write_bytes`).
///
/// # Errors
/// What the system says; `InvalidData` for an unknown form.
pub fn process_written(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("write_bytes: ")?.trim().parse().ok())
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Bytes of memory that process `pid` has at hand now (proc(5) `status`, `VmRSS`).
///
/// # Errors
/// What the system says; `InvalidData` for an unknown form.
pub fn process_memory(pid: u32) -> io::Result<u64> {
    kilobytes_of(pid, "VmRSS:")
}

/// The most bytes of memory that process `pid` ever had at hand (`VmHWM`).
///
/// # Errors
/// As [`process_memory`].
pub fn process_memory_peak(pid: u32) -> io::Result<u64> {
    kilobytes_of(pid, "VmHWM:")
}

/// A line of proc(5) `status` that is in kilobytes, as bytes.
fn kilobytes_of(pid: u32, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"))
        .and_then(|kilobytes| kilobytes.trim().parse::<u64>().ok())
        .map(|kilobytes| kilobytes * 1_024)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// A process and all that it has started, as far as they run: a peer's wrapper counts with what it wraps, and a service with its
/// witnesses. A process alone where the kernel does not tell.
#[must_use]
pub fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
        at += 1;
    }
    all
}

/// User and system ticks of a line of proc(5) `stat`: fields 14 and 15.
fn ticks(stat: &str) -> Option<u64> {
    ticks_from(stat, 11)
}

/// The sum of two neighbours among the fields of a line of proc(5) `stat`, counted after the name, which may hold anything.
fn ticks_from(stat: &str, skipped: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(skipped).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

/// Processors that this process may use.
#[must_use]
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_what_its_thread_uses() {
        let (thread, process) = (
            thread_cpu(),
            process_cpu(std::process::id()).expect("own stat"),
        );
        let mut sum = 0_u64;
        while thread_cpu() - thread < Duration::from_millis(60) {
            sum = std::hint::black_box(sum + 1);
        }
        let used = process_cpu(std::process::id()).expect("own stat") - process;
        assert!(used >= Duration::from_millis(40), "{used:?}");
    }

    #[test]
    fn a_process_has_its_children_and_theirs() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & read -r line; kill $!"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("sh");
        let own = || family(std::process::id());
        while !own().iter().any(|pid| *pid == shell.id()) || family(shell.id()).len() < 2 {
            thread::yield_now();
        }
        let of_shell = family(shell.id());
        assert!(of_shell.iter().all(|pid| own().contains(pid)));
        assert!(process_written(shell.id()).is_ok());
        drop(shell.stdin.take());
        shell.wait().expect("its end");
    }

    #[test]
    fn names_do_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 31 11 5 6 20 0 4 0";
        assert_eq!((ticks(stat), ticks_from(stat, 13)), (Some(42), Some(11)));
        assert_eq!(ticks("7 (a) S 1"), None);
    }
}
