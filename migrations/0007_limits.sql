-- Limits beside a plan's list: of single calls, of providers, of one tenant for a while; and what was learned of tokens.

alter table plans
    -- The most that one call may be able to cost, and may probably use; null for no maximum.
    add column max_request_charge_nanos bigint,
    add column max_request_tokens       bigint,
    -- How long a call may wait for its turn where deny_mode is `wait`.
    add column max_wait_ms              bigint not null default 2000,
    -- The tenant's share when several wait for one provider's quota.
    add column weight                   bigint not null default 1,
    add constraint plans_request_maximum_check check (
        max_request_charge_nanos >= 0 and max_request_tokens >= 1),
    add constraint plans_wait_check check (max_wait_ms between 0 and 30000),
    add constraint plans_weight_check check (weight between 1 and 1000);

-- The operator's own quota there; a list of rules as in plans.
alter table providers add column rules jsonb not null default '[]';

-- Rules of a plan that are another for one tenant until an instant. A row is never edited: of each meter the newest one
-- holds, and one without a rule ends the one before it.
create table limit_overrides (
    id        bigint generated always as identity primary key,
    tenant_id bigint not null constraint limit_overrides_tenant_fkey references tenants (id),
    -- The name of the rule's meter.
    meter     text not null,
    rule      jsonb,
    -- The first instant at which the plan's own rule holds again.
    until_at  timestamptz,
    reason    text not null,
    actor     text not null,
    at        timestamptz not null,
    constraint limit_overrides_end_check check ((rule is null) = (until_at is null) and until_at > at),
    constraint limit_overrides_reason_check check (length(reason) between 1 and 500)
);
create index limit_overrides_newest_idx on limit_overrides (tenant_id, meter, id desc);
create trigger limit_overrides_append_only before update or delete on limit_overrides
    for each row execute function refuse_change();
create trigger limit_overrides_no_truncate before truncate on limit_overrides
    for each statement execute function refuse_change();

-- All overrides of a tenant are taken over together.
create function notify_limit_overrides() returns trigger language plpgsql as $$
begin
    perform pg_notify('weir_config', 'limit_overrides:' || new.tenant_id);
    return null;
end
$$;
create trigger limit_overrides_notify after insert on limit_overrides
    for each row execute function notify_limit_overrides();

-- How many bytes of text a model makes into one token, as learned from the providers' own counts. For estimates of
-- rates, never for money.
create table model_calibrations (
    model_id              bigint primary key constraint model_calibrations_model_fkey references models (id),
    milli_bytes_per_token bigint not null,
    -- How many calls it was learned from.
    calls                 bigint not null,
    updated_at            timestamptz not null default clock_timestamp(),
    constraint model_calibrations_range_check check (milli_bytes_per_token between 1000 and 12000 and calls >= 0)
) with (fillfactor = 50);
