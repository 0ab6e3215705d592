//! Code contexts: what they keep, what they refuse, and what ends them (sections 8 and 9 of the
//! contract). With real engines, of the cache that `SANDKEEP_ENGINE_CACHE` names, else of
//! `engines` in the target directory.

#[path = "code/apart.rs"]
mod apart;
#[path = "code/backups.rs"]
mod backups;
#[path = "code/carried.rs"]
mod carried;
#[path = "code/contexts.rs"]
mod contexts;
#[path = "code/damage.rs"]
mod damage;
#[path = "code/data.rs"]
mod data;
#[path = "code/entries.rs"]
mod entries;
#[path = "code/full.rs"]
mod full;
#[path = "code/hostile.rs"]
mod hostile;
#[path = "code/intl.rs"]
mod intl;
#[path = "code/kept.rs"]
mod kept;
#[path = "code/kills.rs"]
mod kills;
#[path = "code/leaves.rs"]
mod leaves;
#[path = "code/limits.rs"]
mod limits;
#[path = "code/memory.rs"]
mod memory;
#[path = "code/mixed.rs"]
mod mixed;
#[path = "code/model.rs"]
mod model;
#[path = "code/names.rs"]
mod names;
#[path = "code/power.rs"]
mod power;
#[path = "code/races.rs"]
mod races;
#[path = "code/rig.rs"]
mod rig;
#[path = "code/shared.rs"]
mod shared;
#[path = "code/stateless.rs"]
mod stateless;
#[path = "code/states.rs"]
mod states;
#[path = "code/stream.rs"]
mod stream;
#[path = "code/survive.rs"]
mod survive;
#[path = "code/time.rs"]
mod time;
#[path = "code/touched.rs"]
mod touched;
#[path = "code/traces.rs"]
mod traces;
#[path = "code/undone.rs"]
mod undone;
