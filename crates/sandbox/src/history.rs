//! The history of commands.

use containers::{CommandEnd, CommandInfo, CommandOutcome, Main};
use types::{ExecStatus, Execution};

/// Longest argument list in the history, bytes.
const ARGV: usize = 1024;

/// An id that is unique for ever and sorts by time: 48 bits of ms, 80 random bits.
pub(crate) fn new_id(now_ms: i64) -> String {
    let mut random = [0u8; 10];
    let mut filled = 0;
    while filled < random.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        // Only interrupted calls fail once the pool is ready; it is before any daemon runs.
        filled += rustix::rand::getrandom(&mut random[filled..], flags).unwrap_or(0);
    }
    let tail: String = random.iter().map(|b| format!("{b:02x}")).collect();
    format!("{:012x}{tail}", now_ms & 0xffff_ffff_ffff)
}

/// Arguments cut to what the history keeps.
pub(crate) fn shortened(argv: &[String]) -> Vec<String> {
    let mut room = ARGV;
    let mut kept = Vec::new();
    for argument in argv {
        if room == 0 {
            break;
        }
        let mut end = argument.len().min(room);
        while !argument.is_char_boundary(end) {
            end -= 1;
        }
        kept.push(argument[..end].to_owned());
        room -= argument.len().min(room);
    }
    kept
}

/// A command that runs.
pub(crate) fn running(id: String, generation: u64, argv: Vec<String>, at_ms: i64) -> Execution {
    Execution {
        id,
        generation,
        argv,
        status: ExecStatus::Running,
        started_at: at_ms,
        ended_at: None,
        exit_code: None,
        signal: None,
        timed_out: false,
        oom_killed: false,
    }
}

/// A command that a supervisor tells of.
pub(crate) fn of_info(info: &CommandInfo, generation: u64) -> Execution {
    let execution = running(info.id.clone(), generation, info.argv.clone(), info.started_at_ms);
    match &info.end {
        Some(end) => ended(execution, end),
        None => execution,
    }
}

/// The same command with its end.
pub(crate) fn ended(mut execution: Execution, end: &CommandEnd) -> Execution {
    execution.ended_at = Some(end.at_ms);
    match &end.outcome {
        CommandOutcome::Exited { status, timed_out, oom_killed } => {
            execution.status = ExecStatus::Exited;
            execution.timed_out = *timed_out;
            execution.oom_killed = *oom_killed;
            execution.exit_code = Some(match status {
                Main::Code(code) => *code,
                Main::Signal(signal) => {
                    execution.signal = Some(signal_name(*signal));
                    128 + signal
                }
            });
        }
        CommandOutcome::InstanceGone | CommandOutcome::Unknown => {
            execution.status = ExecStatus::Unknown;
        }
    }
    execution
}

/// A signal's name, as `SIGKILL`.
pub(crate) fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    match usize::try_from(signal - 1).ok().and_then(|i| NAMES.get(i)) {
        Some(name) => format!("SIG{name}"),
        None => format!("SIG{signal}"),
    }
}
