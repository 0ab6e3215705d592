//! Running commands over real HTTP in real instances (section 4 of the contract).

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
