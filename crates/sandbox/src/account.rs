//! What the account's list tells of a row (S1).

use store::AccountRow;
use types::{
    Cause, Instance, InstanceConfiguration, InstanceState, InstanceStatus, ObjectId, State, iso8601,
};

/// A row as the list tells it. `is_up`: whether an instance of the object has come up.
pub(crate) fn told(
    row: AccountRow,
    application: &str,
    is_up: impl FnOnce(&ObjectId) -> bool,
) -> Instance {
    let state = state(&row, is_up);
    let updated = match state {
        InstanceState::Provisioning | InstanceState::Running => row.started_at,
        InstanceState::Stopping => row.destroying_at,
        InstanceState::Stopped | InstanceState::Failed => match row.state {
            Some(_) => row.destroyed_at.or(row.stopped_at),
            // That of an earlier life.
            None => row.ended_at,
        },
    };
    let placement = row.placement;
    Instance {
        id: row.object,
        application_id: application.to_owned(),
        name: row.name,
        image: placement.image,
        status: InstanceStatus {
            state,
            updated_at: iso8601(updated.unwrap_or_default()),
            exit_code: row.exit_code,
        },
        started_at: row.started_at.map(iso8601),
        configuration: InstanceConfiguration {
            vcpu: placement.vcpu,
            memory: placement.memory_mib,
            disk: placement.disk_mb,
        },
    }
}

/// From the record alone, but for the first moments of an instance.
fn state(row: &AccountRow, is_up: impl FnOnce(&ObjectId) -> bool) -> InstanceState {
    match row.state {
        Some(State::Running) if row.destroying_at.is_some() => InstanceState::Stopping,
        Some(State::Running) if is_up(&row.object) => InstanceState::Running,
        Some(State::Running) => InstanceState::Provisioning,
        Some(State::Stopped) if row.destroyed_at.is_none() && failed(row) => InstanceState::Failed,
        _ => InstanceState::Stopped,
    }
}

/// Whether it could not be started, or its main process ended by itself and not well.
fn failed(row: &AccountRow) -> bool {
    match row.cause {
        Some(Cause::Failed) => true,
        Some(Cause::Exited | Cause::Signalled | Cause::Oom) => row.exit_code != Some(0),
        _ => false,
    }
}
