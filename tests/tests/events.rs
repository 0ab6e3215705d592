//! What happened, told to those who ask, follow, or have a webhook; and what an operator sees.

#[path = "events/before_stop.rs"]
mod before_stop;
#[path = "events/follow.rs"]
mod follow;
#[path = "events/operator.rs"]
mod operator;
#[path = "events/rig.rs"]
mod rig;
#[path = "events/tls.rs"]
mod tls;
#[path = "events/webhooks.rs"]
mod webhooks;
