CREATE DATABASE w_uuid_and_inet_changes DEFAULT CHARACTER SET utf8mb4;
USE w_uuid_and_inet_changes;
CREATE TABLE u(id UUID PRIMARY KEY DEFAULT UUID(), a INET4, b INET6, v INT);
INSERT INTO u VALUES('00000000-0000-0000-0000-000000000001','1.2.3.4','::1',1),('ffffffff-ffff-4fff-bfff-ffffffffffff','255.0.0.1','ff02::1',2),('01234567-89ab-7cde-8f01-23456789abcd','0.0.0.1','::ffff:0:0',3);
