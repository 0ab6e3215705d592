//! The account's list of instances (S1, section 7 of the contract), in the words of the API that
//! its clients know.

use crate::ObjectId;
use serde::{Deserialize, Serialize};

/// Which sandboxes the account's list holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceFilter {
    /// Start of the name `<owner>/<session>`, case-sensitive.
    pub prefix: String,
    /// Only those with an instance, or only those without.
    pub active: Option<bool>,
}

/// How an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    /// It is being started.
    Provisioning,
    /// It runs.
    Running,
    /// Its sandbox is being destroyed.
    Stopping,
    /// It was stopped, its sandbox was destroyed, or its main process ended with 0.
    Stopped,
    /// It could not be started, or its main process ended by itself and not with 0.
    Failed,
}

/// How an instance is, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InstanceStatus {
    /// Its state.
    pub state: InstanceState,
    /// Since when, ISO 8601 in UTC.
    pub updated_at: String,
    /// Exit code of its main process; absent where that did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// The limits of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InstanceConfiguration {
    /// Cores.
    pub vcpu: f64,
    /// MiB.
    pub memory: u64,
    /// MB.
    pub disk: u64,
}

/// A sandbox that was ever started, with its latest instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Instance {
    /// The object id: 64 hex digits.
    #[schema(value_type = String)]
    pub id: ObjectId,
    /// The application of the request.
    pub application_id: String,
    /// `<owner>/<session>`.
    pub name: String,
    /// The image.
    pub image: String,
    /// How it is.
    pub status: InstanceStatus,
    /// When it was started, ISO 8601 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Its limits.
    pub configuration: InstanceConfiguration,
}

/// The one application of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Application {
    /// What is configured, else `sandkeep`.
    pub id: String,
    /// The account of the request.
    pub account_id: String,
    /// The same as `id`.
    pub name: String,
    /// `durable_object`: each sandbox starts and stops its own instance.
    pub scheduling_policy: String,
}

/// What went wrong, below `/client/v4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AccountError {
    /// 1000 and the HTTP status.
    pub code: u16,
    /// One sentence for a person.
    pub message: String,
}

/// Which page it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PageInfo {
    /// How many items a page has at most.
    pub per_page: u64,
    /// For the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// Every answer below `/client/v4` that is 2xx.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Envelope<T> {
    /// True.
    pub success: bool,
    /// Empty.
    pub errors: Vec<AccountError>,
    /// Empty.
    pub messages: Vec<String>,
    /// What was asked for.
    pub result: T,
    /// Of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_info: Option<PageInfo>,
}

impl<T> Envelope<T> {
    /// The answer that has `result`.
    pub fn new(result: T, result_info: Option<PageInfo>) -> Self {
        Self { success: true, errors: Vec::new(), messages: Vec::new(), result, result_info }
    }
}

/// Every answer below `/client/v4` that is not 2xx.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AccountFailure {
    /// False.
    pub success: bool,
    /// Why, at least one.
    pub errors: Vec<AccountError>,
    /// Empty.
    pub messages: Vec<String>,
    /// Null.
    #[schema(value_type = Option<Object>)]
    pub result: (),
}

impl From<&crate::Error> for AccountFailure {
    fn from(error: &crate::Error) -> Self {
        let code = 1000 + error.code.http_status();
        let errors = vec![AccountError { code, message: error.message.clone() }];
        Self { success: false, errors, messages: Vec::new(), result: () }
    }
}

/// The first form of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InstanceList {
    /// By name.
    pub instances: Vec<Instance>,
}
