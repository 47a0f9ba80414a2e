USE w_multi_table_changes;
UPDATE a JOIN b ON b.a_id=a.id SET a.v=a.v+b.v, b.id=b.id+100; UPDATE a x JOIN a y ON y.id=x.id+1 SET x.v=y.v; UPDATE a,b,c SET a.v=0,b.v=0,c.v=0 WHERE a.id=b.a_id AND c.a_id=a.id;
DELETE a,c FROM a JOIN c ON c.a_id=a.id WHERE a.id=2; DELETE FROM b USING b LEFT JOIN a ON a.id=b.a_id WHERE a.id IS NULL; DELETE x FROM c x JOIN c y ON x.a_id=y.a_id;
BEGIN; INSERT INTO a SELECT id+50,v FROM a; UPDATE a LEFT JOIN b ON b.a_id=a.id SET a.id=a.id+1000 WHERE b.id IS NULL; INSERT INTO c SELECT v,id FROM a; COMMIT;
