//! The life of sandboxes: the documents' walks, starts and stops, time, lists (sections 3, 5, 6,
//! 8 and 12 of the contract).

#[path = "life/adoption.rs"]
mod adoption;
#[path = "life/backstop.rs"]
mod backstop;
#[path = "life/clock.rs"]
mod clock;
#[path = "life/configuration.rs"]
mod configuration;
#[path = "life/crowds.rs"]
mod crowds;
#[path = "life/documents.rs"]
mod documents;
#[path = "life/expiry.rs"]
mod expiry;
#[path = "life/failed.rs"]
mod failed;
#[path = "life/idle.rs"]
mod idle;
#[path = "life/lists.rs"]
mod lists;
#[path = "life/loops.rs"]
mod loops;
#[path = "life/main_process.rs"]
mod main_process;
#[path = "life/on_stop.rs"]
mod on_stop;
#[path = "life/output.rs"]
mod output;
#[path = "life/races.rs"]
mod races;
#[path = "life/rig.rs"]
mod rig;
#[path = "life/settings.rs"]
mod settings;
