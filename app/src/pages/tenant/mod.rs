//! Pages of a tenant's members.

mod overview;

pub(crate) use overview::portal_page;
