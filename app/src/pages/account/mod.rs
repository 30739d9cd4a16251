//! Pages of people who are not signed in yet.

mod login;
mod setup;

pub(crate) use login::login_page;
pub(crate) use setup::setup_page;
