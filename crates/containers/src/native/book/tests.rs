use super::*;

const OLD: u64 = 1;
const NEW: u64 = 2;

fn exit(status: i32) -> CommandExit {
    let (timed_out, oom, instance_gone, at_ms) = (false, false, false, 5);
    CommandExit { wait_status: status, timed_out, oom, instance_gone, at_ms }
}

fn state(id: &str, end: Option<CommandExit>) -> CommandState {
    CommandState { id: id.to_owned(), argv: vec!["x".to_owned()], started_at_ms: 3, end }
}

fn expect(book: &Book, id: &str, link: u64) -> oneshot::Receiver<Answer> {
    book.expect(id, &["x".to_owned()], link).unwrap().0
}

fn said(say: &[ToSupervisor]) -> Vec<String> {
    say.iter().map(|message| serde_json::to_string(message).unwrap()).collect()
}

#[test]
fn a_command_that_nobody_asks_for_is_forgotten_when_it_has_ended() {
    let book = Book::default();
    let _answer = expect(&book, "a", OLD);
    book.started("a", 3);
    assert!(!book.forget("a"), "it runs");
    assert!(book.infos().is_empty());
    assert!(book.kill("a"), "a kill still reaches it");
    assert!(book.expect("a", &[], OLD).is_none(), "its id is known still");
    assert!(book.exited("a", &exit(9)), "the supervisor is to forget it now");
    assert!(book.watch("a").is_none());
    assert!(book.forget("a") && !book.kill("a"));
}

#[test]
fn a_greeting_settles_what_a_broken_connection_swallowed() {
    let book = Book::default();
    let mut never = expect(&book, "never", OLD);
    let mut coming = expect(&book, "coming", OLD);
    let mut later = expect(&book, "later", NEW);
    let mut told = expect(&book, "told", OLD);
    for id in ["ended", "lost", "killed", "left"] {
        drop(expect(&book, id, OLD));
        book.started(id, 3);
    }
    assert!(book.kill("killed"));
    assert!(!book.forget("left"));
    let states = [
        state("told", None),
        state("coming", None),
        state("killed", None),
        state("ended", Some(exit(0))),
        state("left", Some(exit(0))),
        state("stored", Some(exit(0))),
    ];
    let say = book.greeted(NEW, &states, Some(&["coming".to_owned()]), 7);
    let (forget, kill) = (r#"{"op":"forget","id":"#, r#"{"op":"kill","id":"#);
    let wanted = [
        format!("{forget}\"left\"}}"),
        format!("{forget}\"stored\"}}"),
        format!("{kill}\"killed\"}}"),
    ];
    assert_eq!(said(&say), wanted);
    assert!(matches!(never.try_recv(), Ok(Answer::Failed { kind: ExecFailure::Failed, .. })));
    assert!(matches!(told.try_recv(), Ok(Answer::Started { at_ms: 3 })));
    assert!(coming.try_recv().is_err() && later.try_recv().is_err(), "both are still to come");
    let end = |id: &str| book.watch(id).unwrap().borrow().clone().map(|end| end.outcome);
    assert!(matches!(end("ended"), Some(CommandOutcome::Exited { .. })));
    assert_eq!(end("lost"), Some(CommandOutcome::Unknown));
    assert_eq!(end("killed"), None);
    assert!(book.watch("left").is_none() && book.watch("never").is_none());
}

#[test]
fn an_older_supervisor_does_not_name_what_is_starting() {
    let book = Book::default();
    let mut starting = expect(&book, "starting", OLD);
    assert!(book.greeted(NEW, &[], None, 7).is_empty());
    assert!(starting.try_recv().is_err());
    book.started("starting", 3);
    assert!(matches!(starting.try_recv(), Ok(Answer::Started { .. })));
}

#[test]
fn what_was_starting_when_the_connection_broke_may_still_fail() {
    let book = Book::default();
    let mut starting = expect(&book, "a", OLD);
    let ids = ["a".to_owned()];
    assert!(book.greeted(NEW, &[state("a", None)], Some(&ids), 7).is_empty());
    book.failed("a", ExecFailure::NotFound, "execve".to_owned(), 2);
    let answer = starting.try_recv();
    assert!(matches!(answer, Ok(Answer::Failed { kind: ExecFailure::NotFound, .. })));
    assert!(book.watch("a").is_none());
}
