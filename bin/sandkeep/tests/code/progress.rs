//! What `engines install` shows while it works: a bar on a terminal, lines elsewhere, and nothing of
//! either on standard output.

use super::engines::{cache_of, path_with, verb};
use crate::common::{sandkeep, told};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Installs Perl with standard error on a terminal of its own; gives exit code, standard output, and
/// what was on the screen.
fn on_a_terminal(cache: &Path, flags: &str, path: Option<&Path>) -> (i32, String, String) {
    let out = cache.with_extension("out");
    let program = sandkeep();
    let mut command = Command::new("script");
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let install = "engines install perl --engine-cache \"$CACHE\" --data \"$CACHE/none\"";
    let own = std::env::var("PATH").unwrap_or_default();
    command
        .args(["-q", "-e", "-f", "-c"])
        .arg(format!("PATH=\"$FIRST\"; exec \"$PROGRAM\" {flags} {install} > \"$OUT\""))
        .arg("/dev/null")
        .env("PROGRAM", program.get_program())
        .env("CACHE", cache)
        .env("OUT", &out)
        .env("FIRST", path.map_or(own.clone(), |path| format!("{}:{own}", path.display())))
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(std::process::Stdio::null());
    let (code, screen, _) = told(&command.output().expect("script is there"));
    (code, fs::read_to_string(out).expect("written"), screen)
}

/// The bars of a screen that say this, as far as they have come: `pos/len`.
fn bars(screen: &str, what: &str) -> Vec<String> {
    let pieces = screen.split(['\r', '\n', '\x1b']);
    let bars = pieces.filter_map(|piece| {
        let (before, after) = piece.split_once("] ")?;
        let (_, bar) = before.rsplit_once('[')?;
        let drawn = bar.len() == 24 && bar.chars().all(|c| matches!(c, '=' | '>' | ' '));
        (drawn && after.contains(what)).then(|| after.split(' ').next().map(str::to_owned))?
    });
    bars.collect()
}

#[test]
fn an_installation_shows_a_bar_on_a_terminal_and_lines_elsewhere() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    let forget = || fs::remove_file(cache.join("index.json")).expect("removed");

    forget();
    let (code, stdout, screen) = on_a_terminal(&cache, "", None);
    assert_eq!((code, stdout.as_str()), (0, ""), "{screen}");
    let all = bars(&screen, "perl: starting once");
    assert!(all.iter().any(|bar| bar == "4/5"), "{all:?} in {screen:?}");
    assert!(screen.contains("perl: installed"), "{screen:?}");

    // What is fetched is told in bytes; a failure is told below the bar, which is gone.
    forget();
    let wasm = fs::read_dir(cache.join("wasm")).expect("readable").flatten().next();
    fs::remove_file(wasm.expect("one").path()).expect("removed");
    let npm = path_with(place.path(), "npm", "sleep 1; echo no way there >&2; exit 1");
    let (code, stdout, screen) = on_a_terminal(&cache, "", Some(&npm));
    assert_eq!((code, stdout.as_str()), (125, ""), "{screen}");
    let all = bars(&screen, " MB");
    assert!(all.iter().any(|bar| bar == "0/5"), "{all:?} in {screen:?}");
    assert!(bars(&screen, "perl: fetching ").len() >= all.len(), "{screen:?}");
    let (_, last) = screen.rsplit_once(" MB").expect("it was told");
    assert!(last.contains("no way there"), "{screen:?}");
}

#[test]
fn without_a_terminal_there_are_plain_lines() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = cache_of("perl", place.path());
    let forget = || fs::remove_file(cache.join("index.json")).expect("removed");
    forget();
    let told = verb(&cache, &["install", "perl"], |_| {});
    let lines = "perl: starting once\nperl: installed\n";
    assert_eq!(told, (0, String::new(), lines.to_owned()));
    // With `--json` standard output is JSON, wherever standard error goes.
    for terminal in [false, true] {
        forget();
        let (code, stdout, stderr) = match terminal {
            true => on_a_terminal(&cache, "--json", None),
            false => verb(&cache, &["install", "perl", "--json"], |_| {}),
        };
        assert_eq!(code, 0, "{stderr}");
        let builds: serde_json::Value = serde_json::from_str(&stdout).expect("JSON alone");
        assert_eq!(builds[0]["name"], "perl", "{builds}");
    }
}
