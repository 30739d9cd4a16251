-- Books that prove themselves: what an event booked, money that moves without a call, rights, and strays.

-- What the event added to the meters, so that every slice can be computed again from the events alone. One word for
-- each booking, scope/scope_id/meter/slice_start_ms/amount, with spaces between; null in events from before this column.
alter table usage_events add column bookings text;
-- For the job that asks which tenants had traffic lately.
create index usage_events_persisted_idx on usage_events using brin (persisted_at) with (autosummarize = on);

-- A grant that was not used up is taken back by a posting of this kind. Every row there is passes the wider rule,
-- so the table need not be read again.
alter table balance_ledger drop constraint balance_ledger_kind_check;
alter table balance_ledger add constraint balance_ledger_kind_check check (kind in
    ('usage', 'top_up', 'grant', 'adjustment', 'refund', 'reversal', 'expiry')) not valid;
-- What was ever paid in and given, without the lines of usage, which are many more.
create index balance_ledger_moved_idx on balance_ledger (tenant_id) include (amount_nanos)
    where account = 'balance' and kind <> 'usage';

-- Money that moved without a call: what is known of the movement besides its lines in the ledger.
create table movements (
    transaction_id bigint not null,
    tenant_id      bigint not null,
    kind           text not null,
    -- What the balance moved by; an expiry may find nothing left.
    amount_nanos   bigint not null,
    -- The name its caller gave it: asking again under the same name moves nothing.
    reference      text,
    -- Of a grant: from when it may be taken back.
    expires_at     timestamptz,
    -- What the tenant had ever used when the movement was made. What a grant lost is reckoned from these readings.
    used_nanos     bigint not null,
    -- Of a refund of one call: which.
    request_id     text,
    -- Of a refund: the transaction of usage; of a reversal: the movement it undoes; of an expiry: the grant it ends.
    of_transaction bigint,
    -- Of an adjustment that gives budget back: an instant in the month it is about.
    usage_at       timestamptz,
    at             timestamptz not null default clock_timestamp(),
    constraint movements_pkey primary key (transaction_id),
    constraint movements_reference_key unique (tenant_id, reference),
    constraint movements_kind_check check (kind in
        ('top_up', 'grant', 'adjustment', 'refund', 'reversal', 'expiry')),
    constraint movements_expires_check check ((kind = 'grant') = (expires_at is not null)),
    constraint movements_of_check check (kind not in ('reversal', 'expiry') or of_transaction is not null)
);
-- A movement is undone once, and a grant ends once: by being undone or by its time.
create unique index movements_ended_key on movements (of_transaction) where kind in ('reversal', 'expiry');
create index movements_grants_idx on movements (tenant_id, transaction_id) where kind = 'grant';
create index movements_expires_idx on movements (expires_at) where kind = 'grant';
create trigger movements_append_only before update or delete on movements
    for each row execute function refuse_change();
create trigger movements_no_truncate before truncate on movements
    for each statement execute function refuse_change();

-- How a refund is spread over calls: no call gets back more than it was charged.
create table refunded_calls (
    request_id     text not null,
    transaction_id bigint not null,
    amount_nanos   bigint not null,
    constraint refunded_calls_pkey primary key (request_id, transaction_id),
    constraint refunded_calls_amount_check check (amount_nanos > 0)
);
create trigger refunded_calls_append_only before update or delete on refunded_calls
    for each row execute function refuse_change();
create trigger refunded_calls_no_truncate before truncate on refunded_calls
    for each statement execute function refuse_change();

-- What a movement gave back to a slice; below zero where its reversal took it again. A slice is the sum of the
-- events' bookings less these.
create table give_backs (
    tenant_id      bigint not null,
    scope          text not null,
    scope_id       bigint not null,
    meter          text not null,
    slice_start_ms bigint not null,
    transaction_id bigint not null,
    amount         bigint not null,
    constraint give_backs_pkey primary key (tenant_id, scope, scope_id, meter, slice_start_ms, transaction_id)
);
create index give_backs_transaction_idx on give_backs (transaction_id);
create trigger give_backs_append_only before update or delete on give_backs
    for each row execute function refuse_change();
create trigger give_backs_no_truncate before truncate on give_backs
    for each statement execute function refuse_change();

-- A threshold may be crossed again after its alert was withdrawn: then it fires in the next round.
alter table alerts add column round int not null default 0;
alter table alerts drop constraint alerts_once_key;
alter table alerts add constraint alerts_once_key
    unique (tenant_id, scope, scope_id, meter, period_start_ms, threshold_percent, round);
-- Alerts that a correction took back: what was used fell below their mark again.
create table withdrawn_alerts (
    alert_id       bigint not null,
    transaction_id bigint not null,
    at             timestamptz not null default clock_timestamp(),
    constraint withdrawn_alerts_pkey primary key (alert_id)
);
create index withdrawn_alerts_transaction_idx on withdrawn_alerts (transaction_id);
create trigger withdrawn_alerts_append_only before update or delete on withdrawn_alerts
    for each row execute function refuse_change();
create trigger withdrawn_alerts_no_truncate before truncate on withdrawn_alerts
    for each statement execute function refuse_change();

-- How far the comparing of the books has come. No truth: an audit that is lost begins anew.
create table audits (
    name        text not null,
    -- Events written before this are compared.
    seen_to     timestamptz,
    -- When the round began, and the last tenant that is done in it; null when the round is over.
    began_at    timestamptz,
    last_tenant bigint,
    constraint audits_pkey primary key (name)
);

-- Truncating a partition by its own name is refused as well.
do $$
declare
    part regclass;
begin
    for part in select inhrelid::regclass from pg_inherits where inhparent = 'usage_events'::regclass loop
        execute format('create trigger usage_events_no_truncate before truncate on %s
                        for each statement execute function refuse_change()', part);
    end loop;
end
$$;

-- As before, and with that trigger. It runs with its owner's rights, so that the program needs none to make tables.
create or replace function make_usage_partition(month date) returns void language plpgsql security definer as $$
declare
    first date := date_trunc('month', month)::date;
    name  text := 'usage_events_' || to_char(first, 'YYYY_MM');
begin
    if to_regclass(name) is null then
        execute format(
            'create table %I partition of usage_events for values from (%L) to (%L)',
            name, first || ' 00:00:00+00', (first + interval '1 month')::date || ' 00:00:00+00');
        execute format('create trigger usage_events_no_truncate before truncate on %I
                        for each statement execute function refuse_change()', name);
    end if;
end
$$;

-- Puts the events that no month's partition took into partitions of their months, and says how many they were. Their
-- rows are copied as they are and the old table is dropped whole: nothing is edited.
create function adopt_stray_events() returns bigint language plpgsql security definer as $$
declare
    month   date;
    adopted bigint;
begin
    lock table usage_events in access exclusive mode;
    execute 'alter table usage_events detach partition usage_events_default';
    execute 'alter table usage_events_default rename to usage_events_strays';
    execute 'create table usage_events_default partition of usage_events default';
    execute 'create trigger usage_events_no_truncate before truncate on usage_events_default
             for each statement execute function refuse_change()';
    for month in execute
        'select distinct date_trunc(''month'', admitted_at at time zone ''UTC'')::date from usage_events_strays'
    loop
        perform make_usage_partition(month);
    end loop;
    execute 'insert into usage_events select * from usage_events_strays';
    get diagnostics adopted = row_count;
    execute 'drop table usage_events_strays';
    return adopted;
end
$$;

-- What the program may do while it runs, when it is not the owner of the tables: add facts, change the rest, and make
-- partitions. A table with the append-only trigger is a fact. Does nothing where there is no such role.
create function grant_runtime_rights(runtime text default 'weir_runtime') returns void language plpgsql as $$
declare
    here name := current_schema();
    t    record;
begin
    if not exists (select from pg_roles where rolname = runtime) then
        return;
    end if;
    execute format('grant usage on schema %I to %I', here, runtime);
    for t in
        select c.oid::regclass as name, c.relname,
               exists (select from pg_trigger g where g.tgrelid = c.oid
                       and g.tgfoid = 'refuse_change'::regproc) as is_fact
        from pg_class c
        where c.relnamespace = here::regnamespace and c.relkind in ('r', 'p')
    loop
        execute format('revoke all on %s from %I', t.name, runtime);
        execute format('grant %s on %s to %I',
            case when t.relname = '_sqlx_migrations' then 'select'
                 when t.is_fact then 'select, insert'
                 else 'select, insert, update, delete' end,
            t.name, runtime);
    end loop;
    execute format('grant usage, select on all sequences in schema %I to %I', here, runtime);
    execute format('grant execute on function make_usage_partition(date), adopt_stray_events() to %I', runtime);
end
$$;

do $$
declare
    fact regclass;
begin
    execute format('alter function make_usage_partition(date) set search_path = %I, pg_temp', current_schema());
    execute format('alter function adopt_stray_events() set search_path = %I, pg_temp', current_schema());
    revoke execute on function make_usage_partition(date), adopt_stray_events(), grant_runtime_rights(text) from public;
    for fact in select distinct tgrelid::regclass from pg_trigger where tgfoid = 'refuse_change'::regproc loop
        execute format('revoke update, delete, truncate on %s from public', fact);
    end loop;
    -- A role is the whole server's: another database may have made it, and this user may not be let.
    if not exists (select from pg_roles where rolname = 'weir_runtime')
       and (select rolsuper or rolcreaterole from pg_roles where rolname = current_user)
    then
        begin
            create role weir_runtime nologin;
        exception when duplicate_object or unique_violation then
            null;
        end;
    end if;
    perform grant_runtime_rights();
end
$$;
