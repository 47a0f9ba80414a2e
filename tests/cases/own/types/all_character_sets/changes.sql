USE w_all_character_sets;
INSERT INTO c SELECT id+10,l1,l2,l5,l7,c0,c1,c6,c7,k8,ku,gr,he,th,dos,d2,d6,kb,ma,mc,hp,sw,de,ar,ge,a7 FROM c;
INSERT INTO m SELECT id+10,sj,c9,uj,eu,gb,gk,b5,kr,u2,ul,u6,uq,u3,u4,x16,xsj FROM m;
INSERT INTO e VALUES(2,'ü','пока','日本','','é','日','x'),(3,1,2,1,3,2,3,1);
UPDATE c SET l1='ÿ',c1='Ё',gr='Ω',sw='Ö' WHERE id=1;
UPDATE m SET sj='表',gk='啊',u6='𝄞',uq='𝄞',ul='𝄞' WHERE id=1;
UPDATE e SET a='ü',v='' WHERE id=1;
