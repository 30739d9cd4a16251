-- The counters of the Postgres engine. They can be rebuilt from meter_slices and holds, and are never the truth.

create table holds (
    request_id    text primary key,
    tenant_id     bigint not null,
    -- What was taken on each meter, in the form of domain::admission::Take.
    takes         jsonb not null,
    charge_nanos  bigint not null,
    -- Milliseconds since 1970.
    admitted_ms   bigint not null,
    expires_ms    bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index holds_tenant_idx on holds (tenant_id, expires_ms);
-- For the reaper, which looks over all tenants.
create index holds_expires_idx on holds (expires_ms);

create table meter_states (
    -- 0 for a provider's own meters, which all tenants share.
    tenant_id       bigint not null,
    scope           text not null,
    scope_id        bigint not null,
    meter           text not null,
    -- The period whose held amount this is; 0 where the held amount has no period.
    period_start_ms bigint not null default 0,
    -- Of a bucket: its level in millionths, when it was so, and how fast it fills, in thousandths of a unit per second.
    level_micro     bigint not null default 0,
    level_at_ms     bigint not null default 0,
    rate_milli      bigint not null default 0,
    -- Of a window: what live calls set aside. Of a lease: how many are running.
    held            bigint not null default 0,
    constraint meter_states_pkey primary key (tenant_id, scope, scope_id, meter, period_start_ms),
    constraint meter_states_held_check check (held >= 0)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
