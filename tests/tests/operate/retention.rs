//! How long is kept what the configuration says.

use crate::rig::{SOON, configured, run, stop};
use e2e::eventually;
use serde_json::Value;

/// The sweep begins half a minute after the server.
#[tokio::test]
async fn heavy_what_is_old_goes_as_configured() {
    let toml = "[retention]\nevents = \"2s\"\nexecutions = \"2s\"\n";
    let (server, _directory) = configured(toml).await;
    run(&server, "a", &["true"], "").await.expect(200);
    stop(&server, "a").await;
    let events = async || {
        let page = server.get("/v1/events?after=0").await.expect(200);
        (page["events"].as_array().expect("a list").len(), page["missed"] == true)
    };
    let commands = async || {
        let all = server.get("/v1/sandboxes/a/executions").await.expect(200);
        all.as_array().expect("a list").len()
    };
    assert!(events().await.0 >= 3);
    assert_eq!(commands().await, 1);
    eventually("they go", SOON, || async {
        (events().await == (0, true) && commands().await == 0).then_some(())
    })
    .await;
    // What the contract keeps stays.
    let stops: Value = server.get("/v1/sandboxes/a/stops").await.expect(200);
    assert_eq!(stops.as_array().expect("a list").len(), 1);
}
