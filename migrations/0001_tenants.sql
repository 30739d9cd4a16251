-- Who asks, on which plan, with which keys; and who signs in.

-- Facts are only ever added. The trigger is the second lock behind the code, which has no statement that edits one.
create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only: % refused', tg_table_name, tg_op
        using errcode = 'integrity_constraint_violation';
end
$$;

-- Says which row of the configuration changed, so that every process can refresh just that.
create function notify_config() returns trigger language plpgsql as $$
begin
    perform pg_notify('weir_config', tg_table_name || ':' || coalesce(new.id, old.id));
    return null;
end
$$;

create table instance (
    id            bigint primary key default 1,
    name          text not null default 'Weir',
    -- Demo data: a banner says so on every page.
    demo          boolean not null default false,
    created_at    timestamptz not null default now(),
    constraint instance_is_one check (id = 1)
);
insert into instance default values;

create table plans (
    id                        bigint generated always as identity primary key,
    name                      text not null,
    version                   int not null default 1,
    -- A list of rules, in the form of domain::plan::LimitRule.
    rules                     jsonb not null,
    -- In the form of domain::plan::ModelAccess.
    models                    jsonb not null,
    markup_bps                bigint not null default 0,
    default_max_output_tokens bigint not null,
    max_output_tokens         bigint not null,
    deny_mode                 text not null default 'reject',
    request_fee_nanos         bigint not null default 0,
    created_at                timestamptz not null default now(),
    constraint plans_name_version_key unique (name, version),
    constraint plans_markup_check check (markup_bps between 0 and 1000000),
    constraint plans_output_check check (default_max_output_tokens between 1 and max_output_tokens),
    constraint plans_fee_check check (request_fee_nanos >= 0)
);

create table tenants (
    id         bigint generated always as identity primary key,
    slug       text not null,
    name       text not null,
    plan_id    bigint not null constraint tenants_plan_fkey references plans (id),
    time_zone  text not null default 'UTC',
    status     text not null default 'active',
    created_at timestamptz not null default now(),
    constraint tenants_slug_key unique (slug),
    constraint tenants_slug_check check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    constraint tenants_name_check check (length(name) between 1 and 200),
    constraint tenants_status_check check (status in ('active', 'suspended', 'archived'))
);
create index tenants_plan_idx on tenants (plan_id);

create table teams (
    id         bigint generated always as identity primary key,
    tenant_id  bigint not null constraint teams_tenant_fkey references tenants (id),
    name       text not null,
    -- The team's own limits, under the tenant's; a list of rules as in plans.
    rules      jsonb not null default '[]',
    created_at timestamptz not null default now(),
    constraint teams_name_key unique (tenant_id, name),
    -- What a key's team is checked against: a team of another tenant is none.
    constraint teams_tenant_key unique (id, tenant_id)
);

create table api_keys (
    id               bigint generated always as identity primary key,
    tenant_id        bigint not null constraint api_keys_tenant_fkey references tenants (id),
    team_id          bigint,
    name             text not null,
    -- SHA-256 of the whole key: the key itself is shown once and kept nowhere.
    secret_hash      bytea not null,
    -- After a rotation: the secret before it, and until when that still works.
    old_secret_hash  bytea,
    old_secret_until timestamptz,
    -- What a person may see of it: the first and the last four characters.
    masked           text not null,
    -- The key's own limits, under the team's; a list of rules as in plans.
    rules            jsonb not null default '[]',
    status           text not null default 'active',
    expires_at       timestamptz,
    last_used_at     timestamptz,
    created_at       timestamptz not null default now(),
    revoked_at       timestamptz,
    constraint api_keys_team_fkey foreign key (team_id, tenant_id) references teams (id, tenant_id),
    constraint api_keys_secret_hash_key unique (secret_hash),
    constraint api_keys_old_secret_hash_key unique (old_secret_hash),
    constraint api_keys_hash_check check (length(secret_hash) = 32),
    constraint api_keys_old_hash_check check (
        length(old_secret_hash) = 32 and old_secret_hash <> secret_hash),
    constraint api_keys_old_until_check check (
        (old_secret_hash is null) = (old_secret_until is null)),
    constraint api_keys_name_check check (length(name) between 1 and 200),
    constraint api_keys_status_check check (status in ('active', 'disabled', 'revoked'))
);
create index api_keys_tenant_idx on api_keys (tenant_id);

create table users (
    id            bigint generated always as identity primary key,
    -- Lower case.
    email         text not null,
    password_hash text not null,
    role          text not null,
    -- Null for operators.
    tenant_id     bigint constraint users_tenant_fkey references tenants (id),
    created_at    timestamptz not null default now(),
    disabled_at   timestamptz,
    last_seen_at  timestamptz,
    constraint users_email_key unique (email),
    constraint users_email_check check (email = lower(email) and position('@' in email) > 1),
    constraint users_role_check check (
        case when tenant_id is null
             then role in ('owner', 'admin', 'finance', 'support', 'viewer')
             else role in ('t-owner', 't-admin', 't-billing', 't-dev', 't-viewer')
        end)
);

-- Sessions of the console.
create table sessions (
    -- SHA-256 of the session's name, in hexadecimal: who reads this table cannot take a session over.
    id         text primary key,
    -- In the form that tower-sessions gives it.
    data       jsonb not null,
    expires_at timestamptz not null
);
create index sessions_expires_idx on sessions (expires_at);

create table audit_log (
    id         bigint generated always as identity primary key,
    at         timestamptz not null default now(),
    actor      text not null,
    action     text not null,
    target     text not null,
    tenant_id  bigint,
    detail     jsonb not null default '{}',
    request_id text
);
create index audit_log_at_idx on audit_log (at);
create trigger audit_log_append_only before update or delete on audit_log
    for each row execute function refuse_change();
create trigger audit_log_no_truncate before truncate on audit_log
    for each statement execute function refuse_change();

create trigger plans_notify after insert or update or delete on plans
    for each row execute function notify_config();
create trigger tenants_notify after insert or update or delete on tenants
    for each row execute function notify_config();
create trigger teams_notify after insert or update or delete on teams
    for each row execute function notify_config();
create trigger api_keys_notify after insert or delete on api_keys
    for each row execute function notify_config();
-- last_used_at changes all the time and concerns nobody's verdict.
create trigger api_keys_changed_notify
    after update of status, expires_at, rules, team_id, name, secret_hash, old_secret_hash, old_secret_until
    on api_keys
    for each row execute function notify_config();
