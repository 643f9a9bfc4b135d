INSERT INTO replay (tenant, lane, "offset", entry_tenant, entry, release, row, origin_lane, origin_offset, origin_item, of_run)
SELECT r.tenant, r.lane, r."offset", r.entry_tenant, r.entry, r.release, r.row, r.origin_lane, r.origin_offset, r.origin_item, r.of_run
  FROM unnest($1::text[], $2::int[], $3::bigint[], $4::text[], $5::uuid[], $6::int[], $7::int[], $8::int[], $9::bigint[], $10::int[], $11::uuid[])
       AS r (tenant, lane, "offset", entry_tenant, entry, release, row, origin_lane, origin_offset, origin_item, of_run);
