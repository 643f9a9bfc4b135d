INSERT INTO replay (tenant, lane, "offset", entry_tenant, entry, release, row, origin_lane, origin_offset, origin_item)
SELECT r.tenant, r.lane, r."offset", r.entry_tenant, r.entry, r.release, r.row, r.origin_lane, r.origin_offset, r.origin_item
  FROM unnest($1::text[], $2::int[], $3::bigint[], $4::text[], $5::uuid[], $6::int[], $7::int[], $8::int[], $9::bigint[], $10::int[])
       AS r (tenant, lane, "offset", entry_tenant, entry, release, row, origin_lane, origin_offset, origin_item);
