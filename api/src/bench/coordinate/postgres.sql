-- What a user would build instead, doing the same work unsigned: one table a noun, an advisory lock for a lease, and an audit row a
-- write in the same transaction. Each write is one function, so that it takes one round trip and one transaction: the best case.
create table item (id text primary key, body jsonb not null, version bigint not null, updated_at timestamptz not null);
create table session (id bigint generated always as identity primary key, who text not null, role text not null, harness jsonb not null,
    began_at timestamptz not null, expires_at timestamptz not null, ended_at timestamptz, outcome text);
create table lease (resource text primary key, holder text not null, fence bigint not null, expires_at timestamptz not null);
create sequence fence;
create table audit (index bigint generated always as identity primary key, at timestamptz not null, who text not null, tool text not null,
    arguments jsonb not null, outcome text not null, effect jsonb);

create function audited(who text, tool text, arguments jsonb, outcome text, effect jsonb) returns void language sql as $$
    insert into audit (at, who, tool, arguments, outcome, effect) values (clock_timestamp(), who, tool, arguments, outcome, effect)
$$;

create function acquire(wanted text, who text, ttl_s int) returns bigint language plpgsql as $$
declare
    held lease;
    got bigint;
    asked jsonb := jsonb_build_object('resource', wanted, 'ttl_s', ttl_s);
begin
    perform pg_advisory_xact_lock(hashtextextended(wanted, 0));
    select * into held from lease where resource = wanted;
    if found and held.holder <> who and held.expires_at > clock_timestamp() then
        perform audited(who, 'acquire', asked, 'LEASE_CONFLICT', jsonb_build_object('holder', held.holder, 'fence', held.fence));
        return null;
    end if;
    got := nextval('fence');
    insert into lease values (wanted, who, got, clock_timestamp() + make_interval(secs => ttl_s))
        on conflict (resource) do update set holder = excluded.holder, fence = excluded.fence, expires_at = excluded.expires_at;
    perform audited(who, 'acquire', asked, 'applied', jsonb_build_object('fence', got));
    return got;
end $$;

create function release(wanted text, who text, given bigint) returns boolean language plpgsql as $$
declare
    done boolean;
begin
    perform pg_advisory_xact_lock(hashtextextended(wanted, 0));
    delete from lease where resource = wanted and holder = who and fence = given;
    done := found;
    perform audited(who, 'release', jsonb_build_object('resource', wanted, 'fence', given), case when done then 'applied' else 'NOT_HOLDER' end, null);
    return done;
end $$;

create function checkin(who text, role text, harness jsonb, ttl_s int) returns bigint language plpgsql as $$
declare
    began bigint;
begin
    insert into session (who, role, harness, began_at, expires_at)
        values (who, role, harness, clock_timestamp(), clock_timestamp() + make_interval(secs => ttl_s)) returning id into began;
    perform audited(who, 'checkin', jsonb_build_object('role', role, 'harness', harness, 'ttl_s', ttl_s), 'applied', jsonb_build_object('session', began));
    return began;
end $$;

create function checkout(who text, which bigint, came_to text) returns boolean language plpgsql as $$
declare
    done boolean;
begin
    update session s set ended_at = clock_timestamp(), outcome = came_to where s.id = which and s.who = checkout.who and s.ended_at is null;
    done := found;
    perform audited(who, 'checkout', jsonb_build_object('session', which, 'outcome', came_to), case when done then 'applied' else 'SESSION_EXPIRED' end, null);
    return done;
end $$;

create function upsert(who text, which text, patch jsonb) returns bigint language plpgsql as $$
declare
    now_at bigint;
begin
    insert into item as i values (which, patch, 1, clock_timestamp())
        on conflict (id) do update set body = i.body || excluded.body, version = i.version + 1, updated_at = excluded.updated_at
        returning version into now_at;
    perform audited(who, 'upsert', jsonb_build_object('id', which, 'item', patch), 'applied', jsonb_build_object('version', now_at));
    return now_at;
end $$;
