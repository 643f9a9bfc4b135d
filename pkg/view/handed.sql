UPDATE projection AS p
   SET publishes = p.generation = $1
 WHERE p.partition = $2;
