//! Pieces that pages are put together from. Each is a function from owned data to a view.

pub(crate) mod amount;
pub(crate) mod budget;
pub(crate) mod calls;
pub(crate) mod days;
pub(crate) mod form;
pub(crate) mod frame;
pub(crate) mod icon;
pub(crate) mod keys;
pub(crate) mod menu;
pub(crate) mod panel;
pub(crate) mod status;
