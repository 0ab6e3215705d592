//! Compiles init: static, without libc and std, so it cannot be part of the crate itself.

use std::env;
use std::path::PathBuf;
use std::process::{Command, exit};

fn main() {
    println!("cargo::rerun-if-changed=src/init");
    println!("cargo::rerun-if-changed=build.rs");
    let var = |name: &str| {
        env::var(name).unwrap_or_else(|_| {
            eprintln!("cargo did not set {name}");
            exit(1)
        })
    };
    let out = PathBuf::from(var("OUT_DIR")).join("init");
    let mut rustc = Command::new(var("RUSTC"));
    rustc.args(["--edition=2024", "--crate-name=init", "--crate-type=bin", "src/init/main.rs"]);
    rustc.arg("--target").arg(var("TARGET")).arg("-o").arg(&out);
    for option in ["panic=abort", "opt-level=s", "relocation-model=static", "strip=symbols"] {
        rustc.arg("-C").arg(option);
    }
    for arg in ["-nostdlib", "-nostartfiles", "-static", "-no-pie", "-Wl,--build-id=none"] {
        rustc.arg("-C").arg(format!("link-arg={arg}"));
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    match rustc.status() {
        Ok(status) if status.success() => {}
        other => {
            eprintln!("init could not be compiled: {other:?}");
            exit(1)
        }
    }
}
