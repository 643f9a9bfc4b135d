-- Whether a decision stands in any of the lanes $1 behind the number $2 and up to the number $3.
SELECT EXISTS (SELECT
                 FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS v (lane, after, upto)
                 JOIN decision AS d ON d.lane = v.lane AND d.seq > v.after AND d.seq <= v.upto);
