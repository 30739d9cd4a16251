//! The pages as a browser without scripts gets them, the charts as golden files, the colours as
//! numbers.

mod answer;
mod every_page;
mod fake;
mod golden;
mod keys;
mod made_up;
mod overview;
mod palette;
mod sign_in;
mod site;
mod tenants;
