-- What a tenant has in the archive cannot be read any more.
UPDATE artifact AS a
   SET state = 'shredded', pruning = $2
 WHERE a.tenant = $1
   AND a.state = 'stored';
