-- Who admits: one engine at a time, and everybody knows which.

-- One row. A change of mode or epoch takes effect when `ready` is set: then every process that may still have admitted
-- under the old epoch has published its live holds, or its lease is over.
create table limiter_authority (
    one        boolean primary key default true check (one),
    mode       text not null check (mode in ('redis', 'postgres')),
    epoch      bigint not null,
    ready      boolean not null,
    cause      text not null,
    changed_at timestamptz not null default clock_timestamp()
);
insert into limiter_authority (mode, epoch, ready, cause) values ('postgres', 1, true, 'the first one');

-- The processes that may admit, each until its lease is over.
create table limiter_replicas (
    replica_id      text primary key,
    valid_until     timestamptz not null,
    -- The epoch up to which it has published its holds.
    published_epoch bigint not null,
    redis_answers   boolean not null
);

-- Whose counters are in Redis under which epoch. A counter that should be there and is not was lost.
create table limiter_warm (
    -- A tenant; below zero a provider.
    owner_id bigint primary key,
    epoch    bigint not null
);
