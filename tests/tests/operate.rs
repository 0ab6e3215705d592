//! What an operator needs: quotas, memory, restarts under load, backups, hostile clients
//! (sections 5, 6 and 11 of the contract).

#[path = "operate/archives.rs"]
mod archives;
#[path = "operate/backup.rs"]
mod backup;
#[path = "operate/hostile.rs"]
mod hostile;
#[path = "operate/quotas.rs"]
mod quotas;
#[path = "operate/reclaim.rs"]
mod reclaim;
#[path = "operate/retention.rs"]
mod retention;
#[path = "operate/revoked.rs"]
mod revoked;
#[path = "operate/rig.rs"]
mod rig;
#[path = "operate/service.rs"]
mod service;
#[path = "operate/tokens.rs"]
mod tokens;
#[path = "operate/traces.rs"]
mod traces;
#[path = "operate/waiting.rs"]
mod waiting;
