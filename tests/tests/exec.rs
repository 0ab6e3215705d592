//! Running commands over real HTTP in real instances (section 4 of the contract).

#[path = "exec/bytes.rs"]
mod bytes;
#[path = "exec/cli.rs"]
mod cli;
#[path = "exec/env.rs"]
mod env;
#[path = "exec/gone.rs"]
mod gone;
#[path = "exec/kill.rs"]
mod kill;
#[path = "exec/many.rs"]
mod many;
#[path = "exec/names.rs"]
mod names;
#[path = "exec/refuse.rs"]
mod refuse;
#[path = "exec/rig.rs"]
mod rig;
#[path = "exec/strangers.rs"]
mod strangers;
#[path = "exec/stream.rs"]
mod stream;

use e2e::Server;
use serde_json::json;

#[tokio::test]
async fn the_documents_first_command() {
    let server = Server::start().await;
    let answer = server.post("/users/ada/sandboxes/notes", json!({"argv": ["uname", "-s"]})).await;
    let result = answer.expect(200);
    assert_eq!(result["stdout"], "Linux\n");
    assert_eq!(result["exitCode"], 0);
}
