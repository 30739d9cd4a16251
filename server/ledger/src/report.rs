//! The reads behind the pages. All are over rollups and slices; events are only read a page at a time, by index.

mod events;
mod ledger;
mod spend;
mod traffic;

pub use events::{
    EventCursor, EventRow, StoredEvent, StoredRefusal, find_event, find_refusal, recent_events,
};
pub use ledger::{LedgerCursor, LedgerLine, ledger_lines};
pub use spend::{
    DaySpend, KeySpend, TenantPeriod, TenantSpend, key_spend, spend_by_tenant, tenant_days,
};
pub use traffic::{ModelMix, TenantActivity, Totals, activity, last_calls, model_mix, totals};
