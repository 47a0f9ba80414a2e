SET GLOBAL binlog_checksum=CRC32;
