SELECT EXISTS (SELECT FROM quarantine_decision AS d WHERE d.lane IS NOT NULL);
