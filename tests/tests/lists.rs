//! Lists of many sandboxes, acts on many of them, and the account's list (S1, section 7 of the
//! contract).

#[path = "lists/account.rs"]
mod account;
#[path = "lists/acts.rs"]
mod acts;
#[path = "lists/client.rs"]
mod client;
#[path = "lists/names.rs"]
mod names;
#[path = "lists/rig.rs"]
mod rig;
