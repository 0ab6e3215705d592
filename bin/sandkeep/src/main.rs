//! The program: configuration, wiring, command line.

mod cli;
mod config;
mod connect;
mod doctor;
mod fail;
mod output;
mod rest;
mod serve;
mod signals;
mod socket;
mod verbs;

use cli::{Cli, Verb};

fn main() {
    // First of all, while nothing is allocated: this process may have been asked to be the
    // helper that clones, and what it has touched by then makes each clone slower.
    spawner::run_if_asked();
    // Or to be the zygote, which forks as well and must not have a second thread.
    interpreters::run_if_asked();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { i32::from(fail::OURS) } else { 0 };
            // A closed terminal is no reason to say more.
            let _ = error.print();
            std::process::exit(code);
        }
    };
    let code = run(cli).unwrap_or_else(|error| fail::report(&error));
    // Not by returning: a write to a terminal that nobody reads may hang in a thread of the
    // runtime, and a server leaves its instances and their commands running.
    std::process::exit(i32::from(code));
}

fn run(Cli { global, verb }: Cli) -> anyhow::Result<u8> {
    if let Verb::Serve(args) = verb {
        return args.run(&global);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        match verb {
            Verb::Serve(_) => unreachable!("it has a runtime of its own"),
            Verb::Run(args) => args.run(&global).await,
            Verb::Exec(args) => args.run(&global).await,
            Verb::Code(args) => args.run(&global).await,
            Verb::Contexts(args) => args.run(&global).await,
            Verb::Cp(args) => args.run(&global).await,
            Verb::Env(args) => args.run(&global).await,
            Verb::Label(args) => args.run(&global).await,
            Verb::Ls(args) => args.run(&global).await,
            Verb::Inspect(args) => args.run(&global).await,
            Verb::Stops(args) => args.run(&global).await,
            Verb::Executions(args) => args.run(&global).await,
            Verb::Quotas(args) => args.run(&global).await,
            Verb::Events(args) => args.run(&global).await,
            Verb::Backup(args) => args.run(&global).await,
            Verb::Restore(args) => args.run(&global).await,
            Verb::Start(args) => args.run(&global).await,
            Verb::Stop(args) => args.run(&global).await,
            Verb::Rm(args) => args.run(&global).await,
            Verb::Touch(args) => args.run(&global).await,
            Verb::Logs(args) => args.run(&global).await,
            Verb::Image(args) => args.run(&global).await,
            Verb::Engines(args) => args.run(&global).await,
            Verb::Token(args) => args.run(&global).await,
            Verb::Doctor(args) => args.run(&global).await,
            Verb::Top(args) => args.run(&global).await,
            Verb::Webhooks(args) => args.run(&global).await,
            Verb::Version(args) => args.run(&global),
        }
    });
    std::mem::forget(runtime);
    code
}
