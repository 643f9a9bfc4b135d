-- Tables of the transaction's own, under the names by which everybody asks for history and decisions: what it asks from here on it
-- asks of them. They begin with all decisions of the tenant and without history, which is brought as it is needed.
CREATE TEMPORARY TABLE observation (LIKE public.observation INCLUDING ALL) ON COMMIT DROP;
CREATE TEMPORARY TABLE sighting (LIKE public.sighting INCLUDING ALL) ON COMMIT DROP;
CREATE TEMPORARY TABLE decision (LIKE public.decision INCLUDING ALL) ON COMMIT DROP;
CREATE TEMPORARY TABLE snapshot_record (LIKE public.snapshot_record INCLUDING ALL) ON COMMIT DROP;
CREATE TEMPORARY TABLE brought (offer uuid PRIMARY KEY) ON COMMIT DROP;
INSERT INTO pg_temp.decision SELECT d.* FROM public.decision AS d WHERE d.tenant = current_tenant();
ANALYZE pg_temp.decision;
