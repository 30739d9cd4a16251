//! Pages of the operators.

mod key_created;
mod key_revoke;
mod mix;
mod overview;
mod spend;
mod tenant;
mod tenants;

pub(crate) use key_created::key_created_page;
pub(crate) use key_revoke::key_revoke_page;
pub(crate) use overview::overview_page;
pub(crate) use tenant::tenant_page;
pub(crate) use tenants::tenants_page;
