-- What was used and what it cost: the truth. Written once, in the order event, attempts, slices, rollups, postings.

create table usage_events (
    request_id          text not null,
    tenant_id           bigint not null,
    team_id             bigint,
    key_id              bigint not null,
    plan_id             bigint not null,
    provider_id         bigint not null,
    dialect             text not null,
    route               text not null,
    -- As the client named it, and as the provider says it ran.
    model               text not null,
    served_model        text,
    -- The row of prices that was in force at admitted_at.
    price_id            bigint not null,
    stream              boolean not null,
    -- The instant that decides slice, period and price.
    admitted_at         timestamptz not null,
    ended_at            timestamptz not null,
    first_byte_ms       int,
    duration_ms         int not null,
    outcome             text not null,
    -- What the client got, and null when it had left.
    http_status         int,
    usage_source        text not null,
    anomaly             text,
    input               bigint not null default 0,
    cached_input        bigint not null default 0,
    cache_write_short   bigint not null default 0,
    cache_write_long    bigint not null default 0,
    input_audio         bigint not null default 0,
    output              bigint not null default 0,
    reasoning           bigint not null default 0,
    output_audio        bigint not null default 0,
    output_image        bigint not null default 0,
    -- What the provider charges the operator, all attempts together.
    cost_nanos          bigint not null,
    -- What the tenant is charged.
    charge_nanos        bigint not null,
    hold_nanos          bigint not null,
    client_request_id   text,
    provider_request_id text,
    -- The transaction of the ledger that this event is part of; null when nothing was charged.
    ledger_transaction  bigint,
    persisted_at        timestamptz not null default clock_timestamp(),
    -- The id alone is unique: it carries its own time, and admitted_at never changes for it.
    constraint usage_events_pkey primary key (request_id, admitted_at),
    constraint usage_events_outcome_check check (outcome in
        ('ok', 'blocked', 'provider_error', 'provider_timeout', 'client_disconnected', 'interrupted', 'orphaned')),
    constraint usage_events_source_check check (usage_source in ('provider', 'estimated', 'none')),
    constraint usage_events_tokens_check check (
        least(input, cached_input, cache_write_short, cache_write_long, input_audio,
              output, reasoning, output_audio, output_image) >= 0),
    constraint usage_events_money_check check (least(cost_nanos, charge_nanos, hold_nanos) >= 0)
) partition by range (admitted_at);

create index usage_events_tenant_idx on usage_events (tenant_id, admitted_at);
create index usage_events_at_idx on usage_events using brin (admitted_at);

-- What no month's partition takes. A row in here is a fault of the job that makes partitions ahead.
create table usage_events_default partition of usage_events default;

-- Makes the partition of one month, if it is not there yet.
create function make_usage_partition(month date) returns void language plpgsql as $$
declare
    first date := date_trunc('month', month)::date;
    name  text := 'usage_events_' || to_char(first, 'YYYY_MM');
begin
    if to_regclass(name) is null then
        execute format(
            'create table %I partition of usage_events for values from (%L) to (%L)',
            name, first || ' 00:00:00+00', (first + interval '1 month')::date || ' 00:00:00+00');
    end if;
end
$$;
-- From four months back, for history that is brought along, to two months ahead; a job goes on from there.
select make_usage_partition((date_trunc('month', now()) + make_interval(months => m))::date)
from generate_series(-4, 2) as m;

create trigger usage_events_append_only before update or delete on usage_events
    for each row execute function refuse_change();
create trigger usage_events_no_truncate before truncate on usage_events
    for each statement execute function refuse_change();

-- One row for each call that went upstream.
create table attempts (
    request_id  text not null,
    attempt     int not null,
    provider_id bigint not null,
    model       text not null,
    -- Null when no answer came.
    status      int,
    duration_ms int not null,
    error       text,
    started_at  timestamptz not null,
    constraint attempts_pkey primary key (request_id, attempt)
);
create trigger attempts_append_only before update or delete on attempts
    for each row execute function refuse_change();
create trigger attempts_no_truncate before truncate on attempts
    for each statement execute function refuse_change();

-- What each meter used, by slice (rolling) or period (calendar): the sum of the events, kept with them.
-- Rows of sums are updated all the time and no index carries what changes: room on the page keeps the update there.
create table meter_slices (
    -- 0 for a provider's own meters, which all tenants share.
    tenant_id      bigint not null,
    scope          text not null,
    scope_id       bigint not null,
    meter          text not null,
    -- Milliseconds since 1970.
    slice_start_ms bigint not null,
    used           bigint not null,
    constraint meter_slices_pkey primary key (tenant_id, scope, scope_id, meter, slice_start_ms),
    constraint meter_slices_used_check check (used >= 0)
) with (fillfactor = 70);

-- Sums for the pages, by quarter of an hour: that grain fits the offset of every time zone.
create table usage_rollups (
    slot_start   timestamptz not null,
    tenant_id    bigint not null,
    -- 0 for none.
    team_id      bigint not null,
    key_id       bigint not null,
    model        text not null,
    outcome      text not null,
    requests     bigint not null,
    estimated    bigint not null,
    input        bigint not null,
    cached_input bigint not null,
    cache_write  bigint not null,
    output       bigint not null,
    reasoning    bigint not null,
    cost_nanos   bigint not null,
    charge_nanos bigint not null,
    duration_ms  bigint not null,
    constraint usage_rollups_pkey primary key (tenant_id, slot_start, key_id, model, outcome, team_id)
) with (fillfactor = 70);
create index usage_rollups_slot_idx on usage_rollups (slot_start);

-- Double entry: the lines of one transaction add up to nothing.
create sequence ledger_transaction_seq;
create table balance_ledger (
    transaction_id bigint not null,
    line           int not null,
    -- Null for the house's own accounts.
    tenant_id      bigint,
    account        text not null,
    kind           text not null,
    amount_nanos   bigint not null,
    reason         text not null default '',
    actor          text not null,
    at             timestamptz not null default clock_timestamp(),
    constraint balance_ledger_pkey primary key (transaction_id, line),
    constraint balance_ledger_account_check check (account in
        ('balance', 'usage', 'credit', 'adjustment', 'provider_cost', 'provider_payable')),
    constraint balance_ledger_kind_check check (kind in
        ('usage', 'top_up', 'grant', 'adjustment', 'refund', 'reversal'))
);
create index balance_ledger_tenant_idx on balance_ledger (tenant_id, at);

create function check_zero_sum() returns trigger language plpgsql as $$
declare
    wrong bigint;
begin
    select b.transaction_id into wrong
    from balance_ledger b
    where b.transaction_id in (select n.transaction_id from added n)
    group by b.transaction_id
    having sum(b.amount_nanos) <> 0
    limit 1;
    if found then
        raise exception 'ledger transaction % does not add up to zero', wrong
            using errcode = 'integrity_constraint_violation';
    end if;
    return null;
end
$$;
create trigger balance_ledger_zero_sum after insert on balance_ledger
    referencing new table as added
    for each statement execute function check_zero_sum();
create trigger balance_ledger_append_only before update or delete on balance_ledger
    for each row execute function refuse_change();
create trigger balance_ledger_no_truncate before truncate on balance_ledger
    for each statement execute function refuse_change();

-- A snapshot: the sum of the tenant's lines on account `balance`, written with them.
create table balances (
    tenant_id     bigint primary key,
    balance_nanos bigint not null,
    updated_at    timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

create table alerts (
    id                bigint generated always as identity primary key,
    tenant_id         bigint not null,
    scope             text not null,
    scope_id          bigint not null,
    meter             text not null,
    period_start_ms   bigint not null,
    threshold_percent bigint not null,
    limit_amount      bigint not null,
    used_amount       bigint not null,
    request_id        text not null,
    fired_at          timestamptz not null default clock_timestamp(),
    constraint alerts_once_key unique (tenant_id, scope, scope_id, meter, period_start_ms, threshold_percent)
);
create index alerts_fired_idx on alerts (fired_at);
create trigger alerts_append_only before update or delete on alerts
    for each row execute function refuse_change();
create trigger alerts_no_truncate before truncate on alerts
    for each statement execute function refuse_change();

-- Calls of a known key that were not forwarded.
create table refusals (
    request_id        text not null,
    tenant_id         bigint not null,
    key_id            bigint not null,
    at                timestamptz not null,
    route             text not null,
    model             text,
    status            int not null,
    code              text not null,
    scope             text,
    meter             text,
    limit_amount      bigint,
    used_amount       bigint,
    held_amount       bigint,
    wanted_amount     bigint,
    client_request_id text,
    constraint refusals_pkey primary key (request_id)
);
create index refusals_tenant_idx on refusals (tenant_id, at);
create trigger refusals_append_only before update or delete on refusals
    for each row execute function refuse_change();
create trigger refusals_no_truncate before truncate on refusals
    for each statement execute function refuse_change();

-- Two numbers that should have been equal, written down before anything is repaired.
create table drift (
    id         bigint generated always as identity primary key,
    kind       text not null,
    tenant_id  bigint not null,
    request_id text,
    meter      text,
    expected   bigint not null,
    found      bigint not null,
    cause      text not null default '',
    seen_at    timestamptz not null default clock_timestamp()
);
create index drift_seen_idx on drift (seen_at);
create trigger drift_append_only before update or delete on drift
    for each row execute function refuse_change();
create trigger drift_no_truncate before truncate on drift
    for each statement execute function refuse_change();
