//! Who comes when.

use super::*;

fn owner(name: &str) -> Owner {
    name.parse().unwrap()
}

fn refused(scope: &str) -> Error {
    let error = Error::new(ErrorCode::QuotaExceeded, "full").with("what", "running");
    error.with("scope", scope)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[tokio::test]
async fn the_first_is_called_first_and_the_next_when_it_has_gone() {
    let turns = Turns::default();
    let ada = turns.join(&owner("ada"), &refused("owner")).unwrap();
    let ben = turns.join(&owner("ben"), &refused("owner")).unwrap();
    turns.freed();
    assert!(ada.called(soon()).await);
    // It did not fit, and its limit is not ben's.
    ada.refused(&refused("owner"));
    assert!(ben.called(soon()).await);
    drop(ada);
    assert!(ben.called(soon()).await);
}

#[tokio::test]
async fn what_the_machine_is_short_of_holds_up_all_behind() {
    let turns = Turns::default();
    let ada = turns.join(&owner("ada"), &refused("machine")).unwrap();
    let ben = turns.join(&owner("ben"), &refused("machine")).unwrap();
    turns.freed();
    assert!(ada.called(soon()).await);
    ada.refused(&refused("machine"));
    assert!(!ben.called(Instant::now() + LOOK * 3).await, "it is not its turn");
    drop(ada);
    assert!(ben.called(soon()).await);
}

#[test]
fn who_comes_later_does_not_overtake_those_who_wait_for_the_same() {
    let turns = Turns::default();
    assert!(turns.before(&owner("ada")).is_none());
    let ada = turns.join(&owner("ada"), &refused("owner")).unwrap();
    assert!(turns.before(&owner("ada")).is_some());
    assert!(turns.before(&owner("ben")).is_none());
    ada.refused(&refused("machine"));
    assert!(turns.before(&owner("ben")).is_some());
    drop(ada);
    assert!(turns.before(&owner("ada")).is_none() && turns.before(&owner("ben")).is_none());
}

#[test]
fn the_line_has_an_end() {
    let turns = Turns::default();
    let places: Vec<_> =
        (0..MOST).map(|_| turns.join(&owner("ada"), &refused("owner")).unwrap()).collect();
    assert!(turns.join(&owner("ben"), &refused("owner")).is_none());
    drop(places);
    assert!(turns.join(&owner("ben"), &refused("owner")).is_some());
    assert_eq!(turns.line().waiting.len(), 0, "a place that is dropped is none");
}

#[tokio::test]
async fn the_first_looks_by_itself() {
    let turns = Turns::default();
    let ada = turns.join(&owner("ada"), &refused("owner")).unwrap();
    assert!(ada.called(soon()).await, "nobody said anything");
    assert!(!ada.called(Instant::now()).await);
}
