-- Where calls go and what they cost.

create table providers (
    id                bigint generated always as identity primary key,
    name              text not null,
    dialect           text not null,
    base_url          text not null,
    -- Sealed with the instance's key-encryption key; null where the provider needs no credential.
    credential_sealed bytea,
    -- The last four characters, for people.
    credential_hint   text not null default '',
    connect_ms        int not null default 5000,
    first_byte_ms     int not null default 120000,
    idle_ms           int not null default 60000,
    total_ms          int not null default 900000,
    -- What happens upstream when the client leaves: read on for drain_ms, or close.
    on_disconnect     text not null default 'drain',
    drain_ms          int not null default 60000,
    enabled           boolean not null default true,
    created_at        timestamptz not null default now(),
    constraint providers_name_key unique (name),
    constraint providers_dialect_check check (dialect in ('openai', 'anthropic', 'gemini')),
    constraint providers_disconnect_check check (on_disconnect in ('drain', 'abort')),
    constraint providers_times_check check (
        least(connect_ms, first_byte_ms, idle_ms, total_ms) > 0 and drain_ms >= 0)
);

create table models (
    id                bigint generated always as identity primary key,
    -- The name that clients use.
    name              text not null,
    -- What plans allow by: flash, pro, ...
    class             text not null default 'flash',
    context_tokens    bigint,
    max_output_tokens bigint,
    created_at        timestamptz not null default now(),
    constraint models_name_key unique (name)
);

create table model_routes (
    id             bigint generated always as identity primary key,
    model_id       bigint not null constraint model_routes_model_fkey references models (id),
    position       int not null default 1,
    provider_id    bigint not null constraint model_routes_provider_fkey references providers (id),
    upstream_model text not null,
    weight         int not null default 1,
    constraint model_routes_position_key unique (model_id, position),
    constraint model_routes_weight_check check (weight between 0 and 1000)
);

-- A price holds from an instant on. It is never edited: a new price is a new row.
create table prices (
    id             bigint generated always as identity primary key,
    model_id       bigint not null constraint prices_model_fkey references models (id),
    effective_from timestamptz not null,
    -- pico-USD per token by class, in the form of domain::rate_card::Prices.
    prices         jsonb not null,
    -- In the form of domain::rate_card::LongContext.
    long_context   jsonb,
    source         text not null,
    created_at     timestamptz not null default now(),
    constraint prices_from_key unique (model_id, effective_from)
);
create trigger prices_append_only before update or delete on prices
    for each row execute function refuse_change();
create trigger prices_no_truncate before truncate on prices
    for each statement execute function refuse_change();

create trigger providers_notify after insert or update or delete on providers
    for each row execute function notify_config();
create trigger models_notify after insert or update or delete on models
    for each row execute function notify_config();
create trigger model_routes_notify after insert or update or delete on model_routes
    for each row execute function notify_config();
create trigger prices_notify after insert on prices
    for each row execute function notify_config();
