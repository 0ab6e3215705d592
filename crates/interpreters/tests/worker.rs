//! Workers as the server has them: zygote, fork, jail, executions, deaths.

#[path = "worker/bed.rs"]
mod bed;
#[path = "../../../tests/tests/code/carried.rs"]
mod carried;
#[path = "worker/death.rs"]
mod death;
#[path = "worker/jail.rs"]
mod jail;
#[path = "worker/languages.rs"]
mod languages;
#[path = "worker/lies.rs"]
mod lies;
#[path = "worker/many.rs"]
mod many;
#[path = "worker/run.rs"]
mod run;
#[path = "worker/warm.rs"]
mod warm;
