//! What an instance can see of the machine and do to it: nothing.

#[path = "contain/calls.rs"]
mod calls;
#[path = "contain/common.rs"]
mod common;
#[path = "contain/escapes.rs"]
mod escapes;
#[path = "contain/images.rs"]
mod images;
#[path = "contain/machine.rs"]
mod machine;
#[path = "contain/ordinary.rs"]
mod ordinary;
#[path = "contain/privileges.rs"]
mod privileges;
